// The configuration as the page and the plane take it: which setting goes where.
//
// Thread: any; pure functions but for the calls that they hand over (the log's, the transport's).
#pragma once

#include <string>

#include "metrics/publisher.h"
#include "plugin/core/configuration.h"
#include "plugin/core/plane/plane.h"

namespace stepgate::gate {

// folder: of the file that this code was loaded from, beside which the TLS libraries lie.
metrics::PublisherOptions publisher_options(const Configuration& c, const std::string& folder);

plane::PlaneOptions plane_options(const Configuration& c);

}  // namespace stepgate::gate

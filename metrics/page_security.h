// PageSecurity: who may read the metrics page, and under which certificate it is served. All of it is read
// before a port is opened: a page that should be closed never stands open.
//
// Thread: the page's. Ownership: the page; it outlives the server.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "metrics/credentials.h"
#include "metrics/exposition.h"
#include "metrics/tls_context.h"

namespace stepgate::metrics {

struct PageSecurity {
  std::optional<Credentials> credentials;
  std::unique_ptr<TlsContext> tls;

  // False: *error says which file and why. *notes: lines for the owner of the files, "" where all is well.
  bool load(const ExpositionOptions& options, std::string* error, std::string* notes);
};

}  // namespace stepgate::metrics

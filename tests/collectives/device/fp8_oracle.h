// The statistics of fp8 elements, slowly, written from the formats' definitions.
//
// Thread: any; the caller runs it in the default floating-point environment.
#pragma once

#include <vector>

#include "collectives/core/element_type.h"
#include "collectives/core/grad_stats.h"

namespace stepgate::test {

GradStats fp8_reference(ElementType stored, ElementType compute, const std::vector<unsigned char>& data);

}  // namespace stepgate::test

// Whether a name that begins with STEPGATE_ is one that something reads.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <string>
#include <string_view>

namespace stepgate::command {

// Empty for a name that is known, or that is none of StepGate's; else the known name nearest to it.
std::string nearest_known_name(std::string_view name);

}  // namespace stepgate::command

// Whether a name that begins with STEPGATE_ is one that something reads, and what an environment holds of
// such names that nothing reads.
//
// Thread: any. Order, lock: none. Ownership: values. Needs the configuration table and nothing else of the
// plugin, so that the command can link it alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepgate::gate {

// Empty for a name that is known, or that is none of StepGate's; else the known name nearest to it.
std::string nearest_known_name(std::string_view name);

// Of hostnccl, which reads the environment itself: known, and of no use in a configuration file.
bool is_hostnccl_name(std::string_view name);

// A sentence for every unknown name among `variables` ("NAME=VALUE" each, as environ holds them). What
// Kubernetes exports for a Service called stepgate is nobody's mistake and is passed over.
std::vector<std::string> unknown_variables(const std::vector<std::string_view>& variables);

}  // namespace stepgate::gate

// The configuration table as README.md prints it.
//
// Thread: any; no state.
#pragma once

#include <string>
#include <vector>

#include "plugin/core/config_table.h"

namespace stepgate::repo {

inline constexpr const char* kTableBegin = "<!-- configuration table: begin -->";
inline constexpr const char* kTableEnd = "<!-- configuration table: end -->";

// Lines between the two marks: heading, rule, one row per entry.
std::vector<std::string> config_table_markdown();

}  // namespace stepgate::repo

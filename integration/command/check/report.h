// What `stepgate check` prints.
//
// Thread: any. Order, lock: none. Ownership: values. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "integration/command/check/findings.h"
#include "integration/command/check/process.h"

namespace stepgate::command {

std::string table(const Findings& found, const std::vector<Line>& lines);
std::string document(const Findings& found, const std::vector<Line>& lines,
                     const std::vector<ProcessFindings>& processes);

}  // namespace stepgate::command

// What the findings mean for jobs on this machine.
//
// Thread: any. Order, lock: none. Ownership: values. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "integration/command/check/findings.h"

namespace stepgate::command {

std::vector<Line> judge(const Findings& found);
bool anything_wrong(const std::vector<Line>& lines);
// "GPU jobs can run here", "host memory only", "something is wrong".
std::string verdict(const Findings& found, const std::vector<Line>& lines);
const char* state_name(State state);
// "2.28.9" of 22809.
std::string nccl_version_text(int version);

}  // namespace stepgate::command

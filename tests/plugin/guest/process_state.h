// What a guest must leave as it was: signal dispositions and masks, the environment, floating-point
// control, limits and names of the calling thread's process. As lines of text, so that a difference
// names itself.
//
// Thread: what belongs to a thread (masks, MXCSR, its name) is the caller's. Order: none.
#pragma once

#include <string>
#include <vector>

namespace stepgate::test {

using ProcessState = std::vector<std::string>;

ProcessState process_state();

// "before -> after" for each line that changed. Both have the same lines in the same order, except the
// environment, whose lines come and go.
std::vector<std::string> changes(const ProcessState& before, const ProcessState& after);

}  // namespace stepgate::test

// TimedCall: runs one blocking call with a deadline, for an exchange that a missing rank may hold up.
//
// The call runs in a thread of its own; at the deadline the caller goes on and the thread stays with
// the call, for a collective that was issued cannot be taken back. What the call touches must
// therefore be owned by the callable itself. Where no thread can be had the caller makes the call itself,
// without a deadline: the other ranks are in theirs, and one that stayed away would spoil the next
// collective. Control path only: never in a step. Thread: any. The helper thread blocks signals but faults,
// so that the job's handlers run where they did.
#pragma once

#include <chrono>
#include <functional>

namespace stepgate::gate {

// True when the call returned in time. False: it is still running, in its detached thread.
bool run_with_deadline(const std::function<void()>& call, std::chrono::duration<double> limit);

}  // namespace stepgate::gate

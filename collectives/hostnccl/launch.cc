#include "collectives/hostnccl/launch.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "collectives/hostnccl/job.h"
#include "collectives/hostnccl/self_messages.h"
#include "collectives/hostnccl/stream_flight.h"

namespace stepgate::hostnccl {
namespace {

Outcome check_places(const std::vector<Call>& calls) {
  const bool device = calls.front().place.device();
  const auto other = std::find_if(calls.begin(), calls.end(),
                                  [&](const Call& call) { return call.place.device() != device; });
  if (other == calls.end()) return success();
  return invalid_argument(std::string(name_of(other->request.kind)) +
                          ": host and device memory in one group; allowed: all the same");
}

// An operation on the host's memory may not overtake those that still lie on streams: the other ranks pair
// them by their order.
Outcome fly_in_order(const std::vector<Call>& calls) {
  for (const auto& comm : communicators_of(calls)) {
    if (Outcome o = comm->wait_until_idle(); !o.ok()) return o;
  }
  return fly(calls);
}

Outcome launch_now(const std::vector<Call>& calls) {
  if (Outcome o = check_places(calls); !o.ok()) return o;
  if (Outcome o = check_self_messages(calls); !o.ok()) return o;
  return calls.front().place.device() ? StreamFlight::enqueue(calls) : fly_in_order(calls);
}

}  // namespace

void launch_later(const std::vector<Call>& calls) noexcept {
  Outcome outcome;
  try {
    std::this_thread::sleep_for(calls.front().comm->launch_delay());
    outcome = launch_now(calls);
  } catch (const std::exception& error) {
    outcome = {ncclInternalError, error.what()};
  }
  if (outcome.ok()) return;
  for (const Call& call : calls) call.comm->break_with(outcome);
}

Outcome launch(std::vector<Call> calls) {
  if (calls.empty()) return success();
  if (calls.front().comm->blocking()) return launch_now(calls);
  const auto job = std::make_shared<Job>();
  for (const Call& call : calls) call.comm->attach(job);
  if (Outcome o = job->start([calls = std::move(calls)] { launch_later(calls); }); !o.ok()) return o;
  return {ncclInProgress, {}};
}

Outcome launch_one(Call call) {
  if (!call.comm->blocking() || call.place.device() || is_self_message(call))
    return launch({std::move(call)});
  if (Outcome o = call.comm->wait_until_idle(); !o.ok()) return o;
  return fly_alone(call);
}

}  // namespace stepgate::hostnccl

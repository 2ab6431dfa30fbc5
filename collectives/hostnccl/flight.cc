#include "collectives/hostnccl/flight.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "collectives/hostnccl/self_messages.h"

namespace stepgate::hostnccl {
namespace {

constexpr int kYieldingRounds = 2000;
constexpr int kRoundsBeforeWaiting = 64;
constexpr std::chrono::microseconds kNap{50};

struct InFlight {
  Communicator* comm = nullptr;
  Operation operation;
  Outcome outcome{ncclInProgress, {}};

  bool done() const noexcept { return outcome.code != ncclInProgress; }
};

using Communicators = std::vector<Communicator*>;

Communicators distinct(const std::vector<Call>& calls) {
  Communicators comms;
  for (const Call& call : calls) comms.push_back(call.comm.get());
  std::sort(comms.begin(), comms.end(), std::less<>());
  comms.erase(std::unique(comms.begin(), comms.end()), comms.end());
  return comms;
}

class Flight {
 public:
  explicit Flight(const std::vector<Call>& calls) : comms_(distinct(calls)), flights_(calls.size()) {
    for (Communicator* comm : comms_) locks_.emplace_back(comm->use());
  }
  ~Flight() {
    for (InFlight& flight : flights_) {
      if (flight.comm != nullptr) flight.comm->finish(&flight.operation);
    }
  }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  void start(const std::vector<Call>& calls) {
    Communicators stopped;
    copy_self_messages(calls);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      start_one(calls[i], &flights_[i], &stopped);
    }
  }

  void run() {
    for (int round = 0; advance_all(); ++round) {
      if (comms_.size() == 1 && (flights_.size() == 1 || round >= kRoundsBeforeWaiting)) {
        wait_for_first();
      } else if (round < kYieldingRounds) {
        sched_yield();
      } else {
        std::this_thread::sleep_for(kNap);
      }
    }
  }

  std::vector<Outcome> outcomes() const {
    std::vector<Outcome> result;
    for (const InFlight& flight : flights_) result.push_back(flight.outcome);
    return result;
  }

 private:
  static void start_one(const Call& call, InFlight* flight, Communicators* stopped) {
    flight->comm = call.comm.get();
    if (std::find(stopped->begin(), stopped->end(), flight->comm) != stopped->end()) {
      flight->outcome = invalid_usage("not started: an earlier operation of the group failed");
      return;
    }
    Outcome o = is_self_message(call) ? flight->comm->usable()
                                      : flight->comm->start(call.request, &flight->operation);
    if (is_self_message(call) && o.ok()) flight->outcome = success();
    if (!o.ok()) {
      o.message = std::string(name_of(call.request.kind)) + ": " + o.message;
      flight->outcome = std::move(o);
      stopped->push_back(flight->comm);
    }
  }

  // True while something is still in flight.
  bool advance_all() {
    bool busy = false;
    for (InFlight& flight : flights_) {
      if (flight.done()) continue;
      flight.outcome = flight.comm->progress(flight.operation);
      busy |= !flight.done();
    }
    return busy;
  }

  // One world only: its ranks wait in the order in which they all started, so sleeping on the first is
  // safe. With several worlds in one thread it is not: a peer may need progress on another of them.
  void wait_for_first() {
    const auto first =
        std::find_if(flights_.begin(), flights_.end(), [](const InFlight& f) { return !f.done(); });
    first->outcome = first->comm->wait(first->operation);
  }

  const Communicators comms_;
  std::vector<InFlight> flights_;
  std::vector<std::unique_lock<std::mutex>> locks_;  // released before the flights, after ~Flight's body
};

}  // namespace

std::vector<std::shared_ptr<Communicator>> communicators_of(const std::vector<Call>& calls) {
  std::vector<std::shared_ptr<Communicator>> comms;
  for (const Call& call : calls) {
    if (std::find(comms.begin(), comms.end(), call.comm) == comms.end()) comms.push_back(call.comm);
  }
  return comms;
}

std::vector<Outcome> fly_each(const std::vector<Call>& calls) {
  Flight flight(calls);
  flight.start(calls);
  flight.run();
  return flight.outcomes();
}

Outcome fly_alone(const Call& call) {
  Communicator& comm = *call.comm;
  const std::lock_guard lock(comm.use());
  return comm.run(call.request);
}

Outcome fly(const std::vector<Call>& calls) {
  for (Outcome& outcome : fly_each(calls)) {
    if (!outcome.ok()) return std::move(outcome);
  }
  return success();
}

}  // namespace stepgate::hostnccl

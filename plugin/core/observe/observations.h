// Observations: what a job shows beside its gradients: activations, losses, weights, and updates that a
// stored type absorbs. Each name and phase is one line of statistics; nothing waits for the device.
//
// Threads: any; one lock of its own, held while a call is enqueued and while the publisher copies, who does
// not wait for it. Calls of one name must be ordered with each other on the device (one stream, or streams
// that the job ties together).
// Ownership: the gate's; the device outlives it. Captures: what is recorded is looked at in every replay; a
// name that is new in a capture may need memory, and is refused then.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "metrics/record_source.h"
#include "plugin/core/gate_counters.h"
#include "plugin/core/observe/watch.h"
#include "stepgate/stepgate.h"

namespace stepgate::gate {

inline constexpr std::size_t kMaxObservations = 1024;  // names and phases that a gate holds

class Observations {
 public:
  Observations(device::Device& device, GateCounters& counters, bool loss_scaled)
      : device_(device), counters_(counters), loss_scaled_(loss_scaled), pool_(device) {}

  // Whether small and large elements are judged as those of a job that scales its loss.
  void judge(bool loss_scaled) { loss_scaled_.store(loss_scaled, std::memory_order_relaxed); }

  stepgate_status observe(const char* name, const void* data, std::uint64_t count, int type, int phase,
                          device::Stream s);
  stepgate_status observe_update(const char* name, const void* before, const void* after, const void* update,
                                 std::uint64_t count, int type, device::Stream s);
  // Whether a graph may hold addresses of this object's.
  bool captured() const;
  // Nothing while a call is being enqueued. Else what is new has been taken; appends a line for each name and
  // phase that has figures.
  void read(std::vector<metrics::Observation>* out);

 private:
  struct Entry {
    Watch* watch = nullptr;
    std::uint64_t taken = 0;  // the newest call whose figures are in `line`
    metrics::Observation line;
  };
  using Key = std::pair<std::string, metrics::ObservedPhase>;

  stepgate_status usable(const char* function, const char* name, device::Stream s,
                         device::CaptureState* state);
  Entry* entry_locked(const char* function, const Key& key, device::CaptureState state, stepgate_status* why);
  stepgate_status ended_locked(const char* function, Entry& e, device::Code worked, device::Stream s,
                               device::CaptureState state);
  void take_locked(Entry& e);

  device::Device& device_;
  GateCounters& counters_;
  std::atomic<bool> loss_scaled_;
  mutable std::mutex mutex_;
  WatchPool pool_;
  std::deque<Entry> entries_;  // addresses stay
  std::map<Key, Entry*> by_key_;
  bool captured_ = false;
};

}  // namespace stepgate::gate

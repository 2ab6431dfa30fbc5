#include "plugin/core/observe/observations.h"

#include "collectives/core/compute_type.h"
#include "plugin/core/label_text.h"
#include "plugin/core/last_error.h"
#include "plugin/core/memory_reach.h"

namespace stepgate::gate {
namespace {

using device::CaptureState;
using device::Code;
using metrics::ObservedPhase;

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 48;

stepgate_status refused(const char* function, const std::string& what, const std::string& allowed) {
  return fail(STEPGATE_INVALID, std::string(function) + ": " + what + "; allowed: " + allowed);
}

bool known_type(int type, bool fp8) {
  return type >= 0 && type <= (fp8 ? STEPGATE_FP8_E5M2 : STEPGATE_FP64);
}

// Memory of a call: there, aligned to its elements, and within the device's reach.
stepgate_status check_memory(const char* function, const char* what, const void* data, std::uint64_t count,
                             ElementType type, device::Device& device) {
  if (count == 0) return STEPGATE_OK;
  if (data == nullptr) return refused(function, std::string(what) + " is NULL", "memory of count elements");
  if (reinterpret_cast<std::uintptr_t>(data) % element_size(type) != 0) {
    return refused(function, std::string(what) + " is not aligned to its elements",
                   "alignment " + std::to_string(element_size(type)));
  }
  if (reads(device, data)) return STEPGATE_OK;
  return fail(STEPGATE_UNSUPPORTED, std::string(function) + ": " + what +
                                        " lies in memory that the gate's device (" + device.name() +
                                        ") cannot read");
}

stepgate_status check_count(const char* function, std::uint64_t count) {
  if (count <= kMostElements) return STEPGATE_OK;
  return refused(function, "count " + std::to_string(count), "at most 2^48");
}

}  // namespace

stepgate_status Observations::usable(const char* function, const char* name, device::Stream s,
                                     CaptureState* state) {
  if (name == nullptr || *name == '\0') return refused(function, "name ''", "a text that is not empty");
  if (!is_label_text(name)) return refused(function, "name (unprintable)", kLabelAllowed);
  *state = device_.capture_state(s);
  if (*state == CaptureState::kNone || *state == CaptureState::kCapturing) return STEPGATE_OK;
  return refused(function, "the stream's capture is in doubt",
                 "a stream of its own while another one is captured");
}

// nullptr with *why.
Observations::Entry* Observations::entry_locked(const char* function, const Key& key, CaptureState state,
                                                stepgate_status* why) {
  const auto known = by_key_.find(key);
  if (known != by_key_.end()) return known->second;
  if (entries_.size() == kMaxObservations) {
    *why = refused(function, "name '" + key.first + "' is one too many",
                   std::to_string(kMaxObservations) + " names and phases a gate");
    return nullptr;
  }
  if (state == CaptureState::kCapturing && pool_.must_grow()) {
    *why =
        fail(STEPGATE_UNSUPPORTED, std::string(function) + ": name '" + key.first +
                                       "' is new and needs memory, which a capture does not allow; observe "
                                       "it once before the capture");
    return nullptr;
  }
  Watch* const watch = pool_.add();
  if (watch == nullptr) {
    *why = fail(STEPGATE_FAILED, std::string(function) + ": " + device_.last_error());
    return nullptr;
  }
  Entry& e = entries_.emplace_back();
  e.watch = watch;
  e.line.name = key.first;
  e.line.phase = key.second;
  by_key_[key] = &e;
  return &e;
}

stepgate_status Observations::observe(const char* name, const void* data, std::uint64_t count, int type,
                                      int phase, device::Stream s) {
  static constexpr char kFunction[] = "stepgate_observe";
  CaptureState state = CaptureState::kNone;
  if (!known_type(type, true))
    return refused(kFunction, "type " + std::to_string(type), "STEPGATE_FP32 to FP8_E5M2");
  if (phase < STEPGATE_PHASE_FORWARD || phase > STEPGATE_PHASE_WEIGHT) {
    return refused(kFunction, "phase " + std::to_string(phase), "STEPGATE_PHASE_FORWARD to WEIGHT");
  }
  const auto stored = static_cast<ElementType>(type);
  stepgate_status why = check_count(kFunction, count);
  if (why == STEPGATE_OK) why = usable(kFunction, name, s, &state);
  if (why == STEPGATE_OK) why = check_memory(kFunction, "data", data, count, stored, device_);
  if (why != STEPGATE_OK) return why;
  const std::lock_guard lock(mutex_);
  Entry* const e = entry_locked(kFunction, {name, static_cast<ObservedPhase>(phase)}, state, &why);
  if (e == nullptr) return why;
  const ElementType compute = default_compute_type(stored, loss_scaled_.load(std::memory_order_relaxed));
  Code code = e->watch->begin(s);
  if (code == Code::kOk) code = e->watch->scan(s, {data, count, stored, compute});
  return ended_locked(kFunction, *e, code, s, state);
}

stepgate_status Observations::observe_update(const char* name, const void* before, const void* after,
                                             const void* update, std::uint64_t count, int type,
                                             device::Stream s) {
  static constexpr char kFunction[] = "stepgate_observe_update";
  CaptureState state = CaptureState::kNone;
  if (!known_type(type, false))
    return refused(kFunction, "type " + std::to_string(type), "STEPGATE_FP32, FP16, BF16, FP64");
  device::ObserveUpdate job;
  job.before = before;
  job.after = after;
  job.update = update;
  job.count = count;
  job.stored = static_cast<ElementType>(type);
  stepgate_status why = check_count(kFunction, count);
  if (why == STEPGATE_OK) why = usable(kFunction, name, s, &state);
  if (why == STEPGATE_OK) why = check_memory(kFunction, "before", before, count, job.stored, device_);
  if (why == STEPGATE_OK) why = check_memory(kFunction, "after", after, count, job.stored, device_);
  if (why == STEPGATE_OK) why = check_memory(kFunction, "update", update, count, job.stored, device_);
  if (why != STEPGATE_OK) return why;
  const std::lock_guard lock(mutex_);
  Entry* const e = entry_locked(kFunction, {name, ObservedPhase::kUpdate}, state, &why);
  if (e == nullptr) return why;
  Code code = e->watch->begin(s);
  if (code == Code::kOk) code = e->watch->count_update(s, job);
  return ended_locked(kFunction, *e, code, s, state);
}

// What the call enqueued is published; figures of earlier ones are taken before later ones overwrite them.
stepgate_status Observations::ended_locked(const char* function, Entry& e, Code worked, device::Stream s,
                                           CaptureState state) {
  captured_ = captured_ || state == CaptureState::kCapturing;
  if (worked == Code::kOk) worked = e.watch->finish(s, state);
  if (worked != Code::kOk) {
    counters_.error(metrics::Stage::kScan);
    return fail(STEPGATE_FAILED, std::string(function) + ": " + device_.last_error());
  }
  take_locked(e);
  return STEPGATE_OK;
}

bool Observations::captured() const {
  const std::lock_guard lock(mutex_);
  return captured_;
}

void Observations::take_locked(Entry& e) {
  const std::uint64_t newest = e.watch->newest();
  // The turn before the newest one is there as well, where nobody took it yet.
  for (std::uint64_t call = newest > 1 ? newest - 1 : newest; call <= newest; ++call) {
    RangeSlot slot;
    if (call <= e.taken || !e.watch->read(call, &slot)) continue;
    e.taken = call;
    metrics::Observation& line = e.line;
    line.sequence = call;
    if (line.phase == ObservedPhase::kUpdate) {
      const device::UpdateStats u = updates_in(slot);
      line.stats.elements = u.elements;
      line.updates = u.updates;
      line.absorbed = u.absorbed;
      continue;
    }
    line.stats = slot.reduced;
    line.inf += slot.reduced.inf;
    line.nan += slot.reduced.nan;
  }
}

void Observations::read(std::vector<metrics::Observation>* out) {
  // Never waits for the job, which holds it across launches: what it holds up now the next poll takes.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (Entry& e : entries_) {
    take_locked(e);
    if (e.taken != 0) out->push_back(e.line);
  }
}

}  // namespace stepgate::gate

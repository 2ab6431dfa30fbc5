#include "plugin/core/observe/inferred_steps.h"

#include <string_view>
#include <utility>

#include "metrics/record_source.h"
#include "plugin/core/nccl_types.h"

namespace stepgate::gate {
namespace {

// The newest star takes as much as the rest of the pattern needs; none before it has to be tried again.
bool fits(std::string_view pattern, std::string_view name) noexcept {
  std::size_t p = 0, n = 0;
  std::size_t star = std::string_view::npos, from = 0;  // the newest star; where what it takes ends
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

template <class Place>
OpKind operation_of(const Place& place) {
  return std::get<0>(std::get<1>(place));
}

}  // namespace

bool looks_like_gradient(const Reduction& op, const GradientRule& rule) noexcept {
  ElementType type = ElementType::kFp32;
  if (op.kind == OpKind::kMovement) return false;  // parameters that are gathered, say
  if (op.recv == nullptr || !element_type_of(op.type, &type) || op.count < rule.min_count) return false;
  if (rule.ranks != 0 && op.world > 0 && static_cast<std::uint64_t>(op.world) != rule.ranks) return false;
  if (!rule.comm.empty() && (op.comm_name == nullptr || !fits(rule.comm, op.comm_name))) return false;
  // Above the named operators are a job's own: sums that multiply before.
  return op.op == ncclSum || op.op == ncclAvg || op.op >= ncclNumOps;
}

InferredSteps::Place InferredSteps::place_of(const Reduction& op) {
  return {op.recv, {op.kind, op.type, op.count}, op.comm};
}

std::uint32_t InferredSteps::find(const Reduction& op) const {
  const auto it = by_place_.find(place_of(op));
  return it == by_place_.end() ? kNoInferredRange : it->second;
}

std::uint32_t InferredSteps::meet(const Reduction& op, bool* begins) {
  const Place place = place_of(op);
  const auto it = by_place_.find(place);
  const bool seen_again = it != by_place_.end();
  const std::uint32_t id = seen_again ? it->second : adopt(place);
  *begins = false;
  if (id == kNoInferredRange) return id;
  Range& r = ranges_[id];
  if (step_ == 0 || r.last_step == step_) {
    ++step_;
    *begins = true;
  }
  r.recurs = r.recurs || seen_again;
  r.last_step = step_;
  r.last_met = ++met_;
  return id;
}

// A number for a place that has none yet.
std::uint32_t InferredSteps::adopt(const Place& place) {
  std::uint32_t id = moved(place);
  const bool same_kind = id != kNoInferredRange;
  if (!same_kind && ranges_.size() == kMaxInferredRanges) {
    id = expendable();
    if (id == kNoInferredRange) return id;
  }
  if (id == kNoInferredRange) {
    Range r;
    r.place = place;
    r.name = next_name(place);
    by_place_[place] = ranges();
    ranges_.push_back(std::move(r));
    return ranges() - 1;
  }
  Range& r = ranges_[id];
  const bool same_operation = operation_of(r.place) == operation_of(place);
  if (!same_operation) r.name = next_name(place);
  by_place_[place] = id;
  if (r.known) by_place_.erase(r.place);
  r.place = place;
  r.known = true;
  if (same_kind) {
    r.recurs = true;
  } else {
    r.recurs = false;
    r.last_step = 0;
    ++r.turnover;
  }
  return id;
}

// One of the same kind that has not been seen for more than a step, or whose communicator has gone.
std::uint32_t InferredSteps::moved(const Place& place) const {
  for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
    const Range& r = ranges_[i];
    const bool mine = std::get<Kind>(r.place) == std::get<Kind>(place);
    const bool idle =
        !r.known || (std::get<ncclComm_t>(r.place) == std::get<ncclComm_t>(place) && r.last_step + 1 < step_);
    if (mine && idle) return i;
  }
  return kNoInferredRange;
}

// The range that is missed the least, or kNoInferredRange where all of them come in every step.
std::uint32_t InferredSteps::expendable() const {
  std::uint32_t best = kNoInferredRange;
  for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
    const Range& r = ranges_[i];
    if (r.known && r.recurs && r.last_step + 1 >= step_) continue;
    const auto worth = [](const Range& x) { return std::tuple(x.known, x.known && x.recurs, x.last_met); };
    if (best == kNoInferredRange || worth(r) < worth(ranges_[best])) best = i;
  }
  return best;
}

std::string InferredSteps::next_name(const Place& place) {
  const auto op = static_cast<std::size_t>(operation_of(place));
  return std::string(metrics::kReductionOpNames[op]) + "." + std::to_string(named_[op]++);
}

void InferredSteps::comm_retired(ncclComm_t comm) {
  for (Range& r : ranges_) {
    if (!r.known || std::get<ncclComm_t>(r.place) != comm) continue;
    r.known = false;
    by_place_.erase(r.place);
  }
}

}  // namespace stepgate::gate

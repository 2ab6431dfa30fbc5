#include "plugin/core/observe/inferred_steps.h"

#include <string_view>

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
  const std::uint32_t id = it != by_place_.end() ? it->second : adopt(place);
  *begins = false;
  if (id == kNoInferredRange) return id;
  if (step_ == 0 || ranges_[id].last_step == step_) {
    ++step_;
    *begins = true;
  }
  ranges_[id].last_step = step_;
  return id;
}

std::uint32_t InferredSteps::adopt(const Place& place) {
  const Kind& kind = std::get<Kind>(place);
  for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
    Range& r = ranges_[i];
    const bool mine = std::get<Kind>(r.place) == kind;
    const bool idle =
        !r.known || (std::get<ncclComm_t>(r.place) == std::get<ncclComm_t>(place) && r.last_step + 1 < step_);
    if (!mine || !idle) continue;
    if (r.known) by_place_.erase(r.place);
    r.place = place;
    r.known = true;
    by_place_[place] = i;
    return i;
  }
  if (ranges_.size() == kMaxInferredRanges) return kNoInferredRange;
  const auto op = static_cast<std::size_t>(std::get<OpKind>(kind));
  Range r;
  r.place = place;
  r.name = std::string(metrics::kReductionOpNames[op]) + "." + std::to_string(named_[op]++);
  by_place_[place] = ranges();
  ranges_.push_back(std::move(r));
  return ranges() - 1;
}

void InferredSteps::comm_retired(ncclComm_t comm) {
  for (Range& r : ranges_) {
    if (!r.known || std::get<ncclComm_t>(r.place) != comm) continue;
    r.known = false;
    by_place_.erase(r.place);
  }
}

}  // namespace stepgate::gate

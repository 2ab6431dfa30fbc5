// InferredSteps: which reductions are gradients and where a step begins, in a job that says neither.
//
// A reduction counts by what a call shows: a floating type, a sum or average, enough elements, a communicator
// of the right size and name. A range is the memory that such a call fills. A range that is seen again begins
// a new step; a new one joins the step that is open. A range that moved (a bucket that was built anew, memory
// of an allocator) goes on under the name of one of its kind and size that has not been seen for more than a
// step.
// Where all numbers are taken (a job with ever new sizes), one is taken from a range whose communicator has
// gone, else from one that came once and never again, the oldest first, else from the one that has been away
// the longest. Ranges that come in every step keep theirs.
//
// Pure bookkeeping over addresses. Thread: none of its own; the Observer's lock guards it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "plugin/core/core_entry.h"

namespace stepgate::gate {

inline constexpr std::uint32_t kMaxInferredRanges = 1024;
inline constexpr std::uint32_t kNoInferredRange = 0xffffffffu;

struct GradientRule {
  std::uint64_t min_count = 1024;  // elements
  std::uint64_t ranks = 0;         // of the communicator; 0 any
  std::string comm = {};           // the communicator's name, `*` for any characters; "" any, or none at all
};

bool looks_like_gradient(const Reduction& op, const GradientRule& rule) noexcept;

class InferredSteps {
 public:
  // Whether the reduction fills a known range: its number, or kNoInferredRange.
  std::uint32_t find(const Reduction& op) const;
  // The same, counting it into a step. Fills *begins: the open step has ended, and step() is the next one.
  // kNoInferredRange where as many ranges as there are numbers come in every step.
  std::uint32_t meet(const Reduction& op, bool* begins);
  // The pointer may come back as another communicator.
  void comm_retired(ncclComm_t comm);

  std::uint64_t step() const { return step_; }  // the open one; 0: none yet
  std::uint32_t ranges() const { return static_cast<std::uint32_t>(ranges_.size()); }
  // "all_reduce.0", "reduce_scatter.3": by operation, in the order in which they came.
  const std::string& name(std::uint32_t range) const { return ranges_[range].name; }
  // How often the number was taken from one range and given to another of some other kind.
  std::uint32_t turnover(std::uint32_t range) const { return ranges_[range].turnover; }

 private:
  using Kind = std::tuple<OpKind, ncclDataType_t, std::size_t>;
  using Place = std::tuple<const void*, Kind, ncclComm_t>;
  struct Range {
    Place place;
    std::string name;
    std::uint64_t last_step = 0;
    std::uint64_t last_met = 0;  // of all meetings; tells which of two came earlier
    std::uint32_t turnover = 0;
    bool recurs = false;  // it has been met more than once
    bool known = true;    // false: its communicator is gone
  };
  static Place place_of(const Reduction& op);
  std::uint32_t adopt(const Place& place);
  std::uint32_t moved(const Place& place) const;
  std::uint32_t expendable() const;
  std::string next_name(const Place& place);

  std::vector<Range> ranges_;
  std::map<Place, std::uint32_t> by_place_;
  std::uint64_t step_ = 0;
  std::uint64_t met_ = 0;
  std::uint32_t named_[3] = {};  // by OpKind
};

}  // namespace stepgate::gate

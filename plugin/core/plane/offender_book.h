// OffenderBook: the newest offenders of all ranks, as rank 0 keeps them; and the queue of those that a
// rank has still to send. Bounded: the oldest go first, and are counted.
//
// Thread: one at a time (Plane's mutex). Ownership: Plane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "plugin/core/plane/report.h"

namespace stepgate::plane {

inline constexpr std::size_t kBookOffenders = 16384;

class OffenderBook {
 public:
  void add(const Offender& offender);
  // Of one gate and step, by rank and in each rank's order; step 0: the newest that has any.
  std::vector<Offender> of_step(const std::string& gate, std::uint64_t step) const;
  // Takes up to `most` out, oldest first.
  std::size_t take(Offender* out, std::size_t most);
  std::size_t size() const { return book_.size(); }
  std::uint64_t lost() const { return lost_; }

 private:
  std::deque<Offender> book_;
  std::uint64_t lost_ = 0;
};

}  // namespace stepgate::plane

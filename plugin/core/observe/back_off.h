// BackOff: says of events that keep coming when to look into one: the first, and then ever more rarely, but
// after 1,024 at the latest.
//
// Thread: one at a time; its owner's.
#pragma once

#include <algorithm>
#include <cstdint>

namespace stepgate::gate {

class BackOff {
 public:
  bool look() noexcept {
    if (++seen_ < next_) return false;
    seen_ = 0;
    next_ = std::min<std::uint32_t>(2 * next_, kLongest);
    return true;
  }

 private:
  static constexpr std::uint32_t kLongest = 1024;
  std::uint32_t seen_ = 0;  // since the last look
  std::uint32_t next_ = 1;
};

}  // namespace stepgate::gate

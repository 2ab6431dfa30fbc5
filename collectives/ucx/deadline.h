// A point in time after which a wait gives up. Copyable value on the monotonic clock; any thread.
#pragma once

#include <algorithm>
#include <chrono>

namespace stepgate::transport {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

inline Clock::duration seconds(double s) {
  constexpr double kLongest = 1e9;  // 30 years: keeps the conversion to nanoseconds in range
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(s, kLongest)));
}

class Deadline {
 public:
  static Deadline after(double s) { return Deadline(Clock::now() + seconds(s)); }
  explicit Deadline(Time at) : at_(at) {}

  Time at() const { return at_; }
  bool passed() const { return Clock::now() >= at_; }
  bool passed(Time now) const { return now >= at_; }
  // For poll(): never negative, rounded up so that a wake-up is not early.
  int milliseconds(int cap) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, cap));
  }

 private:
  Time at_;
};

}  // namespace stepgate::transport

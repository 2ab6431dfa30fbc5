// Claims: which gate of a process has declared which gradients, for the one rule that spans gates: memory
// that a gate multiplies in the hook (unscale = in_hook) is declared in that gate alone. Asking and claiming
// are one step, so of two threads that declare the same memory at once one is refused.
//
//   const Claims::Ticket t = claims.take(claim, &why);    0: refused
//   declare it in the gate;  claims.bind(t, id)  or, where that failed,  claims.drop(t)
//
// Threads: any. Lock: one of its own, held across nothing: gates wait for their devices under their locks,
// and a declaration on one device must not wait for another one's. Ownership: gates are names here, never
// touched.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugin/core/range_table.h"

namespace stepgate::gate {

class Claims {
 public:
  using Ticket = std::uint64_t;

  // Who declares. multiplies: that gate's mode is in_hook.
  struct Owner {
    const void* gate = nullptr;
    std::string name;
    bool multiplies = false;
  };

  // A claim on a result range. 0 with *why where another gate's is in the way.
  Ticket take(const Owner& owner, const RangeSpec& spec, std::string* why);
  void bind(Ticket ticket, std::uint32_t id) noexcept;
  void drop(Ticket ticket) noexcept;
  void drop_all_of(const void* gate) noexcept;
  // Of a gate's range, or of all its ranges: asked for before they are retired and dropped afterwards, so
  // that what another thread declares meanwhile keeps its claim.
  std::vector<Ticket> held(const void* gate, std::optional<std::uint32_t> id = {});

 private:
  struct Interval {
    std::uintptr_t begin, end;
  };
  struct Claim {
    Ticket ticket = 0;
    Owner owner;
    std::optional<std::uint32_t> id;  // none: the gate has yet to say
    std::vector<Interval> memory;     // by begin
  };
  static std::vector<Interval> memory_of(const RangeSpec& spec);
  static bool overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) noexcept;

  std::mutex mutex_;
  std::vector<Claim> claims_;
  Ticket last_ = 0;
};

}  // namespace stepgate::gate

// What the scan is measured by: plain reads, a copy, CUB's sum. Where the stand-in has none of these
// kernels, a copy of a few bytes takes their place, so that the programs run to their end there.
//
// Thread: the program's one. Order: on the session's stream; nothing waits. Lock: none.
// Ownership: shorter than the session.
#pragma once

#include <memory>

#include "tests/gpu/session.h"

namespace stepgate::gpu {

class Rivals {
 public:
  Rivals(Session& session, const Options& options);
  ~Rivals();
  Rivals(const Rivals&) = delete;
  Rivals& operator=(const Rivals&) = delete;

  // Multiples of 16 bytes, aligned. loads: 4 or 8 in flight.
  bool read(const void* data, std::size_t bytes, int loads);
  bool copy(void* to, const void* from, std::size_t bytes);
  bool driver_copy(void* to, const void* from, std::size_t bytes);
  // False without the library, or for a type that CUB is not asked about.
  bool has_sum(ElementType t) const;
  bool sum(ElementType t, const void* data, std::uint64_t count);

 private:
  using Sum = int (*)(int, const void*, std::uint64_t, void*, void*, std::size_t*, void*);
  bool launch(device::cuda::FunctionHandle function, const void* arguments);
  device::cuda::FunctionHandle find(const char* name);

  Session& session_;
  bool standin_;
  std::string image_;
  device::cuda::ModuleHandle module_ = nullptr;
  device::cuda::FunctionHandle read_4_ = nullptr, read_8_ = nullptr, copy_ = nullptr;
  unsigned blocks_ = 1;
  Sum sum_ = nullptr;
  Buffer out_, scratch_;
};

}  // namespace stepgate::gpu

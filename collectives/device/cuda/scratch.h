// Scratch: where scans keep partial results, reserved before the hot path needs it.
//
// A prepared scan has scratch of its own, found by where its result goes: it stays at one address for
// as long as a graph may hold it. Any other scan takes one of a few fixed pieces, one per stream.
// Two scans may not use one piece at the same time: scans to one result, and the unprepared scans of
// one stream, are in stream order.
//
// Threads: prepare and forget on the control path, find from any. Lock: its own, for look-ups.
// Ownership: the DeviceMemory outlives the table.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "collectives/core/grad_stats.h"
#include "collectives/device/cuda/memory.h"
#include "collectives/device/cuda/scan_plan.h"

namespace stepgate::device::cuda {

inline constexpr std::size_t kPooledStreams = 8;
// Enough for 2^31 elements in one segment.
inline constexpr std::uint64_t kPooledGroups = 4096;
inline constexpr ScratchNeed kPooledRoom = {
    kPooledGroups, kernels::bundle_slots(kPooledGroups, kernels::kSegmentsPerLaunch),
    kernels::ticket_count(kPooledGroups, kernels::kSegmentsPerLaunch), 1024};

class ScratchTable {
 public:
  explicit ScratchTable(DeviceMemory& memory) : memory_(memory) {}

  // Allocates the pool; false with the thread's last text.
  bool fill_pool() noexcept;
  // Room for scans into `key`; what a graph may hold already is kept.
  Code prepare(const void* key, const ScratchNeed& need) noexcept;
  // False where all pooled pieces belong to other streams. `prepared`: the piece is the key's own.
  bool find(const void* key, Stream s, Scratch* out, bool* prepared) noexcept;
  bool find_prepared(const void* key, Scratch* out) noexcept;
  // The results in [start, start + bytes) are gone.
  void forget(const void* start, std::size_t bytes) noexcept;

 private:
  struct Pooled {
    bool taken = false;
    Stream stream = nullptr;
    Scratch scratch;
  };
  bool allocate(const ScratchNeed& need, Scratch* out) noexcept;

  DeviceMemory& memory_;
  std::mutex mutex_;
  std::array<Pooled, kPooledStreams> pool_;
  std::map<std::uintptr_t, std::vector<Scratch>> prepared_;  // the last one is in use
};

}  // namespace stepgate::device::cuda

// Watch: one piece of memory whose statistics are taken again and again, each time on whatever stream the
// job's own call is on, and read by the host later without waiting.
//
//   Watch* w = pool.add();                          control path
//   w->begin(s);  w->scan(s, ...);  w->finish(s);   three launches; no stream waits for another one
//   RangeSlot seen;  w->read(n, &seen)              once the device has come there: what the n-th call saw
//
// It counts its calls in a block of its own on the device, so that a replayed graph counts too, and what a
// call saw goes to mapped memory in one of two turns, stamped with its number. Two calls of one watch must be
// ordered with each other, as what they look at is ordered by the job.
//
// Threads: under the owner's lock; read() and newest() may run beside the device. Ownership: the pool owns
// watches and their memory; it waits for their work before it frees anything.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/core/gate_block.h"
#include "collectives/device/device.h"
#include "plugin/core/device_buffer.h"

namespace stepgate::gate {

// What a scan of a watch looks at.
struct Look {
  const void* data = nullptr;
  std::uint64_t count = 0;
  ElementType stored = ElementType::kFp32;
  ElementType compute = ElementType::kFp32;  // whose range small and large elements are judged by
  ScanPhase phase = ScanPhase::kReduced;     // which half of the slot
};

class Watch {
 public:
  device::Code begin(device::Stream s) noexcept;
  device::Code scan(device::Stream s, const Look& look) noexcept;
  // Its figures come as updates_in(slot).
  device::Code count_update(device::Stream s, device::ObserveUpdate job) noexcept;
  device::Code finish(device::Stream s, device::CaptureState state) noexcept;

  // Calls that this side began; replays come on top.
  std::uint64_t calls() const { return calls_; }
  // The newest call whose figures are there; 0 none.
  std::uint64_t newest() const noexcept;
  // False: not there yet, or gone.
  bool read(std::uint64_t call, RangeSlot* out) const noexcept;

 private:
  friend class WatchPool;
  device::Device* device_ = nullptr;
  GateBlock* block_ = nullptr;   // device memory
  RangeSlot* slot_ = nullptr;    // device memory
  device::TableView table_;      // mapped, of one slot
  device::Mark mark_ = nullptr;  // after the last call that ran
  bool marked_ = false;
  std::uint64_t calls_ = 0;
};

// The figures of count_update in a slot that was read.
device::UpdateStats updates_in(const RangeSlot& slot) noexcept;

class WatchPool {
 public:
  explicit WatchPool(device::Device& device) : device_(device) {}
  // Waits for the work of all watches.
  ~WatchPool();
  WatchPool(const WatchPool&) = delete;
  WatchPool& operator=(const WatchPool&) = delete;

  // Whether add() has to allocate, which no capture allows.
  bool must_grow() const { return used_ == chunks_.size() * kChunk; }
  // Makes room for more, so that add() need not.
  bool grow();
  // nullptr: the device has no memory left (its last_error).
  Watch* add();

 private:
  static constexpr std::size_t kChunk = 32;
  struct Chunk {
    DeviceBuffer<GateBlock> blocks;
    DeviceBuffer<RangeSlot> slots;
    DeviceBuffer<RangeSlot> tables[2];
    DeviceBuffer<std::uint64_t> stamps;
    std::vector<Watch> watches;
  };

  device::Device& device_;
  device::Stream control_ = nullptr;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::size_t used_ = 0;
};

}  // namespace stepgate::gate

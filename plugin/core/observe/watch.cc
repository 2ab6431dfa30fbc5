#include "plugin/core/observe/watch.h"

#include <atomic>
#include <cstring>
#include <utility>

namespace stepgate::gate {
namespace {

// A slot has no place of its own for these; the half that an update does not use takes them.
static_assert(sizeof(device::UpdateStats) <= sizeof(GradStats));

std::uint64_t load(const std::uint64_t& word) {
  return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
}

}  // namespace

device::Code Watch::begin(device::Stream s) noexcept {
  const device::Code code = device_->begin_step(s, {block_, slot_, 1, nullptr});
  if (code == device::Code::kOk) ++calls_;
  return code;
}

device::Code Watch::scan(device::Stream s, const Look& look) noexcept {
  const device::Segment segment{look.data, look.count};
  device::Scan job;
  job.segments = {&segment, 1};
  job.stored = look.stored;
  job.compute = look.compute;
  job.total = look.phase == ScanPhase::kReduced ? &slot_->reduced : &slot_->local;
  return device_->scan(s, job);
}

device::Code Watch::count_update(device::Stream s, device::ObserveUpdate job) noexcept {
  job.total = reinterpret_cast<device::UpdateStats*>(&slot_->reduced);
  return device_->observe_update(s, job);
}

device::UpdateStats updates_in(const RangeSlot& slot) noexcept {
  device::UpdateStats stats;
  std::memcpy(static_cast<void*>(&stats), static_cast<const void*>(&slot.reduced), sizeof stats);
  return stats;
}

device::Code Watch::finish(device::Stream s, device::CaptureState state) noexcept {
  device::FinishStep job;
  job.g = block_;
  job.slots = slot_;
  job.slot_count = 1;
  job.table = table_;
  const device::Code code = device_->finish_step(s, job);
  if (state != device::CaptureState::kNone) return code;
  marked_ = device_->record(s, mark_) == device::Code::kOk || marked_;
  return code;
}

std::uint64_t Watch::newest() const noexcept {
  const std::uint64_t a = load(table_.stamps[0]);
  const std::uint64_t b = load(table_.stamps[1]);
  return a > b ? a : b;
}

bool Watch::read(std::uint64_t call, RangeSlot* out) const noexcept {
  const std::size_t turn = call % 2;
  if (call == 0 || load(table_.stamps[turn]) != call) return false;
  std::uint64_t words[sizeof(RangeSlot) / sizeof(std::uint64_t)];
  const auto* from = reinterpret_cast<const std::uint64_t*>(table_.slots[turn]);
  for (std::size_t i = 0; i < std::size(words); ++i) words[i] = load(from[i]);
  if (load(table_.stamps[turn]) != call) return false;  // overtaken while it was read
  std::memcpy(static_cast<void*>(out), words, sizeof words);
  return true;
}

WatchPool::~WatchPool() {
  for (const auto& chunk : chunks_) {
    for (Watch& w : chunk->watches) {
      if (w.marked_ && !device_.immediate()) device_.wait(control_, w.mark_);
    }
  }
  if (!chunks_.empty() && !device_.immediate()) device_.synchronize(control_);
  for (const auto& chunk : chunks_) {
    for (Watch& w : chunk->watches) {
      if (w.mark_ != nullptr) device_.release_mark(w.mark_);
    }
  }
  device_.release_stream(control_);
}

Watch* WatchPool::add() {
  if (must_grow() && !grow()) return nullptr;
  Watch& w = chunks_[used_ / kChunk]->watches[used_ % kChunk];
  ++used_;
  return &w;
}

// Memory comes zeroed, and that is a block which has counted nothing.
bool WatchPool::grow() {
  using device::Memory;
  if (chunks_.empty() && device_.create_stream(&control_) != device::Code::kOk) return false;
  auto chunk = std::make_unique<Chunk>();
  chunks_.reserve(chunks_.size() + 1);
  Chunk& c = *chunk;
  const bool all = c.blocks.allocate(device_, kChunk, Memory::kDevice) &&
                   c.slots.allocate(device_, kChunk, Memory::kDevice) &&
                   c.tables[0].allocate(device_, kChunk, Memory::kMapped) &&
                   c.tables[1].allocate(device_, kChunk, Memory::kMapped) &&
                   c.stamps.allocate(device_, 2 * kChunk, Memory::kMapped);
  if (!all) return false;
  c.watches.resize(kChunk);
  for (std::size_t i = 0; i < kChunk; ++i) {
    Watch& w = c.watches[i];
    w.device_ = &device_;
    w.block_ = c.blocks.get() + i;
    w.slot_ = c.slots.get() + i;
    w.table_ = {{c.tables[0].get() + i, c.tables[1].get() + i}, c.stamps.get() + 2 * i};
    w.mark_ = device_.create_mark();
    if (w.mark_ != nullptr) continue;
    while (i-- > 0) device_.release_mark(c.watches[i].mark_);
    return false;
  }
  chunks_.push_back(std::move(chunk));
  return true;
}

}  // namespace stepgate::gate

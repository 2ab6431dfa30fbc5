#include "collectives/hostnccl/staging.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

namespace stepgate::hostnccl {
namespace {

// What an exchange of a few numbers per rank needs, with room.
constexpr std::size_t kSmallest = 64 * 1024;

// A buffer serves whatever is not larger and not smaller than a quarter of it.
constexpr std::size_t kMostWaste = 4;

std::size_t rounded(std::size_t bytes) {
  const std::size_t wanted = std::max(bytes, kSmallest);
  constexpr std::size_t kLastPower = ~(~std::size_t{0} >> 1);
  return wanted > kLastPower ? wanted : std::bit_ceil(wanted);
}

}  // namespace

Outcome Staging::create(const Cuda& cuda, cuda::Context context, std::shared_ptr<Staging>* staging) {
  const std::shared_ptr<Staging> made(new Staging(cuda, context));
  if (Outcome o = made->prepare(); !o.ok()) {
    made->release();
    return o;
  }
  *staging = made;
  return success();
}

Outcome Staging::prepare() {
  std::byte* first = nullptr;
  if (Outcome o = allocate(kSmallest, &first); !o.ok()) return o;
  give_back(first);
  const ContextScope scope(cuda_, context_);
  if (!scope.outcome().ok()) return scope.outcome();
  const auto address = static_cast<cuda::Address>(reinterpret_cast<std::uintptr_t>(first));
  if (Outcome o = cuda_.told(cuda_.api.PointerGetAttribute(&ordinal_, cuda::kAttributeDeviceOrdinal, address),
                             "cuPointerGetAttribute");
      !o.ok()) {
    return o;
  }
  return cuda_.told(cuda_.api.EventCreate(&last_, cuda::kEventDisableTiming), "cuEventCreate");
}

std::byte* Staging::take_free(std::size_t bytes) {
  const std::lock_guard lock(inner_);
  Buffer* best = nullptr;
  for (Buffer& buffer : buffers_) {
    const bool fits = !buffer.taken && buffer.bytes >= bytes && buffer.bytes / kMostWaste <= rounded(bytes);
    if (fits && (best == nullptr || buffer.bytes < best->bytes)) best = &buffer;
  }
  if (best == nullptr) return nullptr;
  best->taken = true;
  return best->memory;
}

Outcome Staging::take(std::size_t bytes, std::byte** buffer) {
  *buffer = take_free(bytes);
  return *buffer != nullptr ? success() : allocate(rounded(bytes), buffer);
}

// Portable: a group may stage for several devices at once.
Outcome Staging::allocate(std::size_t bytes, std::byte** buffer) {
  const ContextScope scope(cuda_, context_);
  if (!scope.outcome().ok()) return scope.outcome();
  const RelaxedCapture relaxed(cuda_);
  if (!relaxed.outcome().ok()) return relaxed.outcome();
  void* memory = nullptr;
  if (Outcome o =
          cuda_.told(cuda_.api.MemHostAlloc(&memory, bytes, cuda::kHostAllocPortable), "cuMemHostAlloc");
      !o.ok()) {
    o.message += " for " + std::to_string(bytes) + " bytes of staging";
    return o;
  }
  *buffer = static_cast<std::byte*>(memory);
  const std::lock_guard lock(inner_);
  buffers_.push_back({*buffer, bytes, true});
  return success();
}

void Staging::give_back(std::byte* memory) noexcept {
  const std::lock_guard lock(inner_);
  for (Buffer& buffer : buffers_) {
    if (buffer.memory == memory) buffer.taken = false;
  }
}

Outcome Staging::follow_last(cuda::Stream stream) {
  if (!recorded_) return success();
  return cuda_.told(cuda_.api.StreamWaitEvent(stream, last_, 0), "cuStreamWaitEvent");
}

Outcome Staging::be_last(cuda::Stream stream) {
  Outcome o = cuda_.told(cuda_.api.EventRecord(last_, stream), "cuEventRecord");
  recorded_ = recorded_ || o.ok();
  return o;
}

void Staging::begin_flight() noexcept {
  const std::lock_guard lock(inner_);
  ++flights_;
}

void Staging::end_flight() noexcept {
  const std::lock_guard lock(inner_);
  --flights_;
  ended_.notify_all();  // under the lock: the object may go as soon as a waiter has it
}

bool Staging::idle() const {
  const std::lock_guard lock(inner_);
  return flights_ == 0;
}

bool Staging::wait_until_idle(std::chrono::duration<double> limit) const {
  std::unique_lock lock(inner_);
  return ended_.wait_for(lock, limit, [&] { return flights_ == 0; });
}

void Staging::keep(std::shared_ptr<void> flight) {
  const std::lock_guard lock(inner_);
  kept_.push_back(std::move(flight));
}

void Staging::release() {
  std::vector<Buffer> buffers;
  std::vector<std::shared_ptr<void>> kept;
  {
    const std::lock_guard lock(inner_);
    buffers.swap(buffers_);
    kept.swap(kept_);
  }
  std::optional<ContextScope> scope(std::in_place, cuda_, context_);
  if (!scope->outcome().ok()) scope.emplace(cuda_, context_);  // what is not freed now is lost
  const RelaxedCapture relaxed(cuda_);
  for (const Buffer& buffer : buffers) (void)cuda_.api.MemFreeHost(buffer.memory);
  const std::lock_guard order(order_);
  if (last_ != nullptr) (void)cuda_.api.EventDestroy(std::exchange(last_, nullptr));
  recorded_ = false;
}

}  // namespace stepgate::hostnccl

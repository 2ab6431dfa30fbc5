// A communicator's side of its device: the context, pinned buffers that a stream's copies use, an event
// that keeps its operations in the order of the calls whatever the streams, and the count of flights that
// lie on streams and have not ended.
//
//   std::byte* buffer = nullptr;
//   Outcome o = staging->take(bytes, &buffer);   // at the call, never in a host function
//   staging->give_back(buffer);                  // from a host function too: calls no driver
//
// Threads: any. Locks: order() is the callers', held while a flight is enqueued; the inner one for moments.
// Order: release() once, when idle() or when nobody may come back; only then does the object go.
// Ownership: all buffers and the event, until release().
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/hostnccl/cuda_driver.h"
#include "collectives/hostnccl/outcome.h"

namespace stepgate::hostnccl {

class Staging {
 public:
  // With one buffer, so that small operations allocate nothing later.
  static Outcome create(const Cuda& cuda, cuda::Context context, std::shared_ptr<Staging>* staging);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  const Cuda& cuda() const noexcept { return cuda_; }
  cuda::Context context() const noexcept { return context_; }
  int ordinal() const noexcept { return ordinal_; }

  Outcome take(std::size_t bytes, std::byte** buffer);
  void give_back(std::byte* buffer) noexcept;

  std::mutex& order() noexcept { return order_; }
  // order() is held. The stream waits for the last flight; the flight just enqueued becomes the last.
  Outcome follow_last(cuda::Stream stream);
  Outcome be_last(cuda::Stream stream);

  void begin_flight() noexcept;
  void end_flight() noexcept;
  bool idle() const;
  bool wait_until_idle(std::chrono::duration<double> limit) const;

  // What a recorded graph refers to stays until release().
  void keep(std::shared_ptr<void> flight);
  // Frees everything. A failure is not reported: there is nobody who could do better.
  void release();

 private:
  struct Buffer {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
    bool taken = false;
  };

  Staging(const Cuda& cuda, cuda::Context context) : cuda_(cuda), context_(context) {}
  Outcome prepare();
  Outcome allocate(std::size_t bytes, std::byte** buffer);
  std::byte* take_free(std::size_t bytes);

  const Cuda& cuda_;
  const cuda::Context context_;
  int ordinal_ = 0;

  std::mutex order_;
  cuda::Event last_ = nullptr;  // guarded by order_
  bool recorded_ = false;       // guarded by order_

  mutable std::mutex inner_;  // guards what follows
  mutable std::condition_variable ended_;
  std::vector<Buffer> buffers_;
  std::vector<std::shared_ptr<void>> kept_;
  std::size_t flights_ = 0;
};

}  // namespace stepgate::hostnccl

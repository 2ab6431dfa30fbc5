// Ranks of one communicator as threads, each with a device of the stand-in's and a stream on it.
//
//   StandIn standin(delayed(200));
//   run_device_ranks(standin, 4, [](Rank& r) {
//     DeviceMemory data(r.driver(), bytes);
//     data.upload(r.stream(), source);               // enqueued
//     ASSERT_EQ(ncclAllReduce(..., r.stream()), ncclSuccess);
//     EXPECT_EQ(data.download(r.stream()), wanted);  // waits
//   });
//
// Threads: the body runs once per rank, all at the same time. Order: communicators are created before it in
// the same threads and destroyed after it; the stand-in's account is checked by StandIn's end.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "tests/collectives/device_cuda_driver/standin.h"
#include "tests/collectives/hostnccl/ranks.h"

namespace stepgate::hostnccl::test {

using device::cuda::Driver;
using stepgate::test::JobStream;
using stepgate::test::StandIn;

// Memory of the device whose context is current in this thread.
class DeviceMemory {
 public:
  DeviceMemory(const Driver& driver, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* at(std::size_t byte = 0) const;
  std::size_t bytes() const { return bytes_; }
  void upload(cudaStream_t stream, const void* from, std::size_t bytes, std::size_t at = 0) const;
  void fill(cudaStream_t stream, unsigned char byte) const;
  // Copies all of it into `to`, on the device.
  void copy_to(cudaStream_t stream, const DeviceMemory& to) const;
  void download(cudaStream_t stream, void* to, std::size_t bytes, std::size_t at = 0) const;

  template <typename T>
  std::vector<T> values(cudaStream_t stream, std::size_t count, std::size_t first = 0) const {
    std::vector<T> result(count);
    download(stream, result.data(), count * sizeof(T), first * sizeof(T));
    return result;
  }

 private:
  const Driver& driver_;
  std::size_t bytes_;
  device::cuda::DevicePtr address_ = 0;
};

// A host function on a stream that waits until it is opened: nothing behind it runs before.
class Gate {
 public:
  Gate(const Driver& driver, cudaStream_t stream);
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() { open_ = true; }
  bool passed() const { return passed_; }

 private:
  std::atomic<bool> open_{false};
  std::atomic<bool> passed_{false};
};

class Rank {
 public:
  Rank(const StandIn& standin, int rank, int size, int ordinal)
      : index(rank), count(size), job_(standin, ordinal) {}
  const int index;
  const int count;
  ncclComm_t comm = nullptr;

  std::size_t place() const { return static_cast<std::size_t>(index); }
  const Driver& driver() const { return job_.driver(); }
  cudaStream_t stream() const { return static_cast<cudaStream_t>(job_.get()); }
  device::cuda::ContextHandle context() const { return job_.context(); }
  void synchronize(cudaStream_t stream) const;
  void synchronize() const { synchronize(stream()); }

  // All elements `value`, enqueued.
  void set(const DeviceMemory& memory, std::size_t elements, float value) const;

 private:
  JobStream job_;
};

// A second stream, of the context that is current.
class Stream {
 public:
  explicit Stream(const Driver& driver);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  const Driver& driver_;
  device::cuda::StreamHandle stream_ = nullptr;
};

// Most tests sum floats in place.
inline constexpr std::size_t kCount = 2000;
inline constexpr std::size_t kBytes = kCount * sizeof(float);
ncclResult_t sum(const DeviceMemory& data, ncclComm_t comm, cudaStream_t stream, std::size_t count = kCount);
// What ncclCommGetAsyncError says.
ncclResult_t state_of(ncclComm_t comm);

// How a peer that aborted shows: where it left before this rank first reached its shared memory, that fails.
inline bool says_gone(ncclResult_t result) {
  return result == ncclRemoteError || result == ncclSystemError;
}

bool all_are(const std::vector<float>& values, float wanted);
template <typename Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

// The body may destroy or abort the communicator and set it to NULL.
void run_device_ranks(const StandIn& standin, int size, const std::function<void(Rank&)>& body);

// Four devices: freeing memory waits for the device, so ranks that share one could wait for each other.
standin::Options devices();
// And delays before every operation of a stream, by this run's seed.
standin::Options delayed(unsigned max_delay_us);

}  // namespace stepgate::hostnccl::test

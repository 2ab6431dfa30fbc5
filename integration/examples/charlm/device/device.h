// The GPU of one rank: its context, its stream, charlm's kernels, and all memory of the job's.
//
//   Device device(driver_library, local_rank);
//   float* masters = device.memory<float>(count);
//
// Memory is given back with the object, not before: freeing waits for the device, and a rank that leaves
// because of an error first has to abort the communicator whose kernels it might wait for.
// Thread: that which made it; the context is current there. Order: made before the communicator (NCCL takes
// the current device), destroyed after it. Lock: none. Ownership: as said above.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"
#include "integration/examples/charlm/device/cuda_driver.h"

namespace stepgate::charlm {

class Device {
 public:
  // The local_rank-th device, counted round: a launcher may show each rank one device alone.
  // Throws std::runtime_error.
  Device(const std::string& driver_library, unsigned local_rank);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  cudaStream_t stream() const { return stream_; }
  const CudaDriver& driver() const { return driver_; }

  // `count` elements, one at least; what they hold is not said.
  template <class T>
  T* memory(std::size_t count) {
    return static_cast<T*>(device_bytes(count * sizeof(T)));
  }
  template <class T>
  T* pinned(std::size_t count) {
    return static_cast<T*>(pinned_bytes(count * sizeof(T)));
  }

  // On the stream. Host memory that is not pinned makes download() wait.
  void upload(void* device, const void* host, std::size_t bytes);
  void download(void* host, const void* device, std::size_t bytes);
  CUfunc_st* kernel(const char* name);
  // A kernel that takes one struct by value.
  template <class Arguments>
  void launch(CUfunc_st* kernel, unsigned blocks, unsigned threads, Arguments arguments) {
    void* list[] = {&arguments};
    launch_with(kernel, blocks, threads, list);
  }
  void synchronize();

 private:
  void start(unsigned local_rank);
  void stop() noexcept;
  void load_module();
  void* device_bytes(std::size_t bytes);
  void* pinned_bytes(std::size_t bytes);
  void launch_with(CUfunc_st* kernel, unsigned blocks, unsigned threads, void** arguments);

  CudaDriver driver_;
  int device_ = 0;
  CUctx_st* context_ = nullptr;
  bool current_ = false;
  CUstream_st* stream_ = nullptr;
  CUmod_st* module_ = nullptr;
  std::vector<CudaAddress> device_memory_;
  std::vector<void*> pinned_memory_;
};

}  // namespace stepgate::charlm

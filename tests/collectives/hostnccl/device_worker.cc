// hostnccl_worker: the modes on a device.
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "collectives/device/cuda/driver.h"
#include "tests/collectives/hostnccl/worker.h"

namespace hostnccl_worker {
namespace {

using stepgate::device::cuda::ContextHandle;
using stepgate::device::cuda::DevicePtr;
using stepgate::device::cuda::Driver;
using stepgate::device::cuda::Result;
using stepgate::device::cuda::StreamHandle;

// The first device, a stream, and a buffer.
class Device {
 public:
  explicit Device(std::size_t most) {
    std::string error;
    driver_ = Driver::open({}, &error);
    if (driver_ == nullptr) std::printf("%s\n", error.c_str());
    expect(driver_ != nullptr, "libcuda.so.1");
    must(driver_->call(driver_->api().DevicePrimaryCtxRetain, &context_, 0));
    must(driver_->call(driver_->api().CtxPushCurrent, context_));
    must(driver_->call(driver_->api().StreamCreate, &stream_, 1U));
    must(driver_->call(driver_->api().MemAlloc, &memory_, most * sizeof(float)));
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  void set(std::size_t count, float value) {
    host_.assign(count, value);
    must(
        driver_->call(driver_->api().MemcpyHtoDAsync, memory_, host_.data(), count * sizeof(float), stream_));
  }
  ncclResult_t sum(std::size_t count, ncclComm_t comm) {
    void* data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory_));
    return ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, static_cast<cudaStream_t>(stream_));
  }
  bool all_are(std::size_t count, float wanted) {
    must(
        driver_->call(driver_->api().MemcpyDtoHAsync, host_.data(), memory_, count * sizeof(float), stream_));
    must(driver_->call(driver_->api().StreamSynchronize, stream_));
    for (std::size_t i = 0; i < count; ++i) {
      if (host_[i] != wanted) return false;
    }
    return true;
  }
  void release() {
    must(driver_->call(driver_->api().MemFree, memory_));
    must(driver_->call(driver_->api().StreamDestroy, stream_));
    must(driver_->call(driver_->api().DevicePrimaryCtxRelease, 0));
  }

 private:
  static void must(Result result) { expect(result == Result::kSuccess, "a call of the driver"); }

  std::shared_ptr<Driver> driver_;
  ContextHandle context_ = nullptr;
  StreamHandle stream_ = nullptr;
  DevicePtr memory_ = 0;
  std::vector<float> host_;
};

}  // namespace

void work_on_device(Place place, const ncclUniqueId& id) {
  constexpr std::size_t kMost = 3'000'000;
  Device device(kMost);
  ncclComm_t comm = join(place, id);
  const auto size = static_cast<float>(place.size);
  for (std::size_t count = 1; count < kMost; count = count * 5 + 2) {
    device.set(count, 1);
    expect(device.sum(count, comm) == ncclSuccess, "ncclAllReduce");
    expect(device.sum(count, comm) == ncclSuccess, "ncclAllReduce");
    expect(device.all_are(count, size * size), "value of the sum");
  }
  expect(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
  device.release();
}

// The others find out from the communicator: their calls had returned.
void lose_the_last_rank_of_devices(Place place, const ncclUniqueId& id) {
  constexpr std::size_t kCount = 200'000;
  const int victim = place.size - 1;
  Device device(kCount);
  ncclComm_t comm = join(place, id);
  device.set(kCount, 1);
  expect(device.sum(kCount, comm) == ncclSuccess, "ncclAllReduce");
  const bool right = device.all_are(kCount, static_cast<float>(place.size));
  if (place.rank == victim) raise(SIGKILL);
  // The victim's share of the first sum may be all that a slower rank ever gets to see of it.
  ncclResult_t early = ncclSuccess;
  expect(right || (ncclCommGetAsyncError(comm, &early) == ncclSuccess && early == ncclRemoteError),
         "value of the sum");
  const ncclResult_t called = device.sum(kCount, comm);
  expect(called == ncclSuccess || called == ncclRemoteError, "code of the call in between");
  ncclResult_t state = ncclSuccess;
  while (state == ncclSuccess) {  // the alarm ends it
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    expect(ncclCommGetAsyncError(comm, &state) == ncclSuccess, "ncclCommGetAsyncError");
  }
  const std::string message = ncclGetLastError(comm);
  std::printf("told: %s\n", message.c_str());
  expect(state == ncclRemoteError, "code of the communicator");
  expect(message.find("rank " + std::to_string(victim)) != std::string::npos, "name of the dead rank");
  expect(device.sum(10, comm) == ncclRemoteError, "code of a later call");
  const bool destroys = place.rank % 2 == 0;
  expect((destroys ? ncclCommDestroy(comm) : ncclCommAbort(comm)) == ncclSuccess, "leaving");
  device.release();
}

}  // namespace hostnccl_worker

// Which observer reads what, where a process has one for the host and one for a device.
#include <functional>

#include "collectives/device/host/host_device.h"
#include "plugin/core/observe/observer.h"
#include "tests/collectives/device_cuda_driver/standin.h"

namespace stepgate::test {
namespace {

using device::cuda::DevicePtr;
using device::cuda::Result;
using gate::Observer;

constexpr std::size_t kCount = 2048;
constexpr std::size_t kBytes = kCount * sizeof(float);

class TwoObservers : public testing::Test {
 protected:
  void SetUp() override {
    cuda_ = standin_.device(0);
    ASSERT_NE(cuda_, nullptr);
    on_host_ = std::make_unique<Observer>(gate::ObserverOptions{}, host_);
    on_cuda_ = std::make_unique<Observer>(gate::ObserverOptions{}, *cuda_);
  }
  void TearDown() override {
    wait();
    on_cuda_.reset();
  }

  Reduction reduction(float* data) {
    return {OpKind::kAllReduce,
            ncclFloat32,
            ncclSum,
            0,
            data,
            data,
            kCount,
            2,
            reinterpret_cast<ncclComm_t>(this),
            reinterpret_cast<cudaStream_t>(stream())};
  }
  // The memory is filled on the stream, late, and handed to both observers behind that.
  void reduce(float* data, float value, bool for_the_host, bool for_the_device) {
    std::vector<float> values(kCount, value);
    DevicePtr from = 0;
    ASSERT_EQ(call(api().MemAlloc, &from, kBytes), Result::kSuccess);
    ASSERT_EQ(call(api().MemcpyHtoDAsync, from, static_cast<const void*>(values.data()), kBytes, stream()),
              Result::kSuccess);
    ASSERT_EQ(call(api().MemcpyDtoHAsync, static_cast<void*>(data), from, kBytes, stream()),
              Result::kSuccess);
    const Reduction op = reduction(data);
    EXPECT_EQ(on_host_->after(op, stepgate::Outcome::kLaunched), for_the_host);
    EXPECT_EQ(on_cuda_->after(op, stepgate::Outcome::kLaunched), for_the_device);
    wait();
    EXPECT_EQ(call(api().MemFree, from), Result::kSuccess);
  }
  // The largest elements of the steps that an observer saw.
  static std::vector<double> seen(Observer& o) {
    o.close();
    std::vector<StepRecord> records(16);
    std::uint64_t lost = 0;
    records.resize(o.read_steps(0, records.data(), records.size(), &lost));
    EXPECT_EQ(lost, 0u);
    std::vector<double> largest;
    for (const StepRecord& r : records) largest.push_back(r.local_sum.abs_max);
    return largest;
  }
  const device::cuda::DriverApi& api() const { return job_.driver().api(); }
  template <class... A>
  Result call(A... arguments) const {
    return job_.driver().call(arguments...);
  }
  device::cuda::StreamHandle stream() const { return static_cast<device::cuda::StreamHandle>(job_.get()); }
  void wait() { EXPECT_EQ(call(api().StreamSynchronize, stream()), Result::kSuccess); }

  StandIn standin_{{.max_delay_us = 2000}};
  JobStream job_{standin_};
  device::HostDevice host_;
  std::unique_ptr<device::CudaDevice> cuda_;
  std::unique_ptr<Observer> on_host_, on_cuda_;
};

using CudaObserverMemory = TwoObservers;

TEST_F(CudaObserverMemory, PinnedMemoryIsReadOnTheStream) {
  void* pinned = nullptr;
  ASSERT_EQ(call(api().MemHostAlloc, &pinned, kBytes, device::cuda::kHostAllocDeviceMap), Result::kSuccess);
  reduce(static_cast<float*>(pinned), 3, false, true);
  reduce(static_cast<float*>(pinned), 4, false, true);
  EXPECT_EQ(seen(*on_cuda_), (std::vector<double>{3, 4}));
  EXPECT_EQ(seen(*on_host_), std::vector<double>{});
  EXPECT_EQ(call(api().MemFreeHost, pinned), Result::kSuccess);
}

TEST_F(CudaObserverMemory, RegisteredMemoryToo) {
  std::vector<float> data(kCount);
  ASSERT_EQ(call(api().MemHostRegister, static_cast<void*>(data.data()), kBytes, 0u), Result::kSuccess);
  reduce(data.data(), 3, false, true);
  EXPECT_EQ(seen(*on_cuda_), std::vector<double>{3});
  EXPECT_EQ(call(api().MemHostUnregister, static_cast<void*>(data.data())), Result::kSuccess);
}

TEST_F(CudaObserverMemory, ManagedMemoryIsNotTheHostsToRead) {
  DevicePtr managed = 0;
  ASSERT_EQ(call(api().MemAllocManaged, &managed, kBytes, device::cuda::kMemAttachGlobal), Result::kSuccess);
  auto* const data = reinterpret_cast<float*>(managed);
  const Reduction op = reduction(data);
  EXPECT_FALSE(on_host_->after(op, stepgate::Outcome::kLaunched));
  EXPECT_TRUE(on_cuda_->after(op, stepgate::Outcome::kDropped));
  EXPECT_EQ(call(api().MemFree, managed), Result::kSuccess);
}

TEST_F(CudaObserverMemory, OrdinaryMemoryIsTheHosts) {
  std::vector<float> data(kCount, 5);
  const Reduction op = reduction(data.data());
  EXPECT_TRUE(on_host_->after(op, stepgate::Outcome::kLaunched));
  EXPECT_FALSE(on_cuda_->after(op, stepgate::Outcome::kLaunched));
  EXPECT_EQ(seen(*on_host_), std::vector<double>{5});
}

// Reading it would end the job; nothing on the host's side can be told to fetch it.
TEST_F(CudaObserverMemory, AScaleOnADeviceIsUnknownToTheHosts) {
  DevicePtr scale = 0;
  ASSERT_EQ(call(api().MemAlloc, &scale, sizeof(float)), Result::kSuccess);
  on_host_->external_scale(reinterpret_cast<const float*>(scale));
  std::vector<float> data(kCount, 2);
  const Reduction op = reduction(data.data());
  EXPECT_TRUE(on_host_->after(op, stepgate::Outcome::kLaunched));
  EXPECT_EQ(seen(*on_host_), std::vector<double>{2});
  std::vector<RangeRecord> ranges;
  on_host_->read_ranges(&ranges);
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].scale, 0) << "none is known";
  EXPECT_EQ(call(api().MemFree, scale), Result::kSuccess);
}

}  // namespace
}  // namespace stepgate::test

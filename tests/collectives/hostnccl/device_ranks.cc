#include "tests/collectives/hostnccl/device_ranks.h"

#include <algorithm>
#include <cstdint>

#include "tests/test_seed.h"

namespace stepgate::hostnccl::test {

using device::cuda::DevicePtr;
using device::cuda::Result;

DeviceMemory::DeviceMemory(const Driver& driver, std::size_t bytes) : driver_(driver), bytes_(bytes) {
  EXPECT_EQ(driver.call(driver.api().MemAlloc, &address_, bytes), Result::kSuccess);
}

DeviceMemory::~DeviceMemory() {
  EXPECT_EQ(driver_.call(driver_.api().MemFree, address_), Result::kSuccess);
}

void* DeviceMemory::at(std::size_t byte) const {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address_ + byte));
}

void DeviceMemory::upload(cudaStream_t stream, const void* from, std::size_t bytes, std::size_t at) const {
  EXPECT_EQ(driver_.call(driver_.api().MemcpyHtoDAsync, address_ + at, from, bytes, stream),
            Result::kSuccess);
}

void DeviceMemory::fill(cudaStream_t stream, unsigned char byte) const {
  EXPECT_EQ(driver_.call(driver_.api().MemsetD8Async, address_, byte, bytes_, stream), Result::kSuccess);
}

void DeviceMemory::copy_to(cudaStream_t stream, const DeviceMemory& to) const {
  EXPECT_EQ(driver_.call(driver_.api().MemcpyDtoDAsync, to.address_, address_, bytes_, stream),
            Result::kSuccess);
}

void DeviceMemory::download(cudaStream_t stream, void* to, std::size_t bytes, std::size_t at) const {
  EXPECT_EQ(driver_.call(driver_.api().MemcpyDtoHAsync, to, address_ + at, bytes, stream), Result::kSuccess);
  EXPECT_EQ(driver_.call(driver_.api().StreamSynchronize, stream), Result::kSuccess);
}

Gate::Gate(const Driver& driver, cudaStream_t stream) {
  const auto wait = [](void* data) {
    auto* gate = static_cast<Gate*>(data);
    eventually([&] { return gate->open_.load(); });
    gate->passed_ = true;
  };
  EXPECT_EQ(driver.call(driver.api().LaunchHostFunc, stream, +wait, static_cast<void*>(this)),
            Result::kSuccess);
}

void Rank::synchronize(cudaStream_t stream) const {
  EXPECT_EQ(driver().call(driver().api().StreamSynchronize, stream), Result::kSuccess);
}

void Rank::set(const DeviceMemory& memory, std::size_t elements, float value) const {
  const std::vector<float> values(elements, value);
  memory.upload(stream(), values.data(), elements * sizeof(float));
}

Stream::Stream(const Driver& driver) : driver_(driver) {
  EXPECT_EQ(driver.call(driver.api().StreamCreate, &stream_, device::cuda::kStreamNonBlocking),
            Result::kSuccess);
}

Stream::~Stream() {
  EXPECT_EQ(driver_.call(driver_.api().StreamDestroy, stream_), Result::kSuccess);
}

ncclResult_t sum(const DeviceMemory& data, ncclComm_t comm, cudaStream_t stream, std::size_t count) {
  return ncclAllReduce(data.at(), data.at(), count, ncclFloat32, ncclSum, comm, stream);
}

ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess) << failure();
  return state;
}

bool all_are(const std::vector<float>& values, float wanted) {
  return !values.empty() && std::all_of(values.begin(), values.end(), [&](float v) { return v == wanted; });
}

void run_device_ranks(const StandIn& standin, int size, const std::function<void(Rank&)>& body) {
  const ncclUniqueId id = new_id();
  in_threads(size, [&](int index) {
    Rank rank(standin, index, size, index);
    ASSERT_EQ(ncclCommInitRank(&rank.comm, size, id, index), ncclSuccess) << failure();
    body(rank);
    if (rank.comm != nullptr) {
      EXPECT_EQ(ncclCommDestroy(rank.comm), ncclSuccess) << failure();
    }
  });
}

standin::Options devices() {
  standin::Options options;
  options.devices = 4;
  return options;
}

standin::Options delayed(unsigned max_delay_us) {
  standin::Options options = devices();
  options.max_delay_us = max_delay_us;
  options.seed = stepgate::test::test_seed();
  return options;
}

}  // namespace stepgate::hostnccl::test

// Opening the driver and a device: what is missing, too old or refused, and how it is told.
#include <gtest/gtest.h>

#include <string>

#include "collectives/device/cuda/kernels/fatbin.h"
#include "tests/collectives/device_cuda_driver/standin.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using device::CudaDevice;
using device::cuda::Driver;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CudaDriver, OpensTheStandIn) {
  StandIn standin;
  std::string error;
  const auto driver = standin.open(&error);
  ASSERT_NE(driver, nullptr) << error;
  EXPECT_EQ(driver->version(), 13000);
  EXPECT_EQ(driver->device_count(), 1);
  EXPECT_STREQ(driver->error_name(device::cuda::Result::kOutOfMemory), "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_STREQ(driver->error_name(static_cast<device::cuda::Result>(4711)), "unknown CUDA error");
}

TEST(CudaDriver, AMissingLibraryIsNamed) {
  std::string error;
  EXPECT_EQ(Driver::open({"libcuda-nowhere.so.1", 13000}, &error), nullptr);
  EXPECT_TRUE(contains(error, "libcuda-nowhere.so.1")) << error;
  EXPECT_TRUE(contains(error, "install the NVIDIA driver")) << error;
}

TEST(CudaDriver, AMissingFunctionIsNamed) {
  std::string error;
  EXPECT_EQ(Driver::open({STEPGATE_PARTIAL_DRIVER, 13000}, &error), nullptr);
  EXPECT_TRUE(contains(error, "lacks cuGetErrorName, cuDeviceGetCount")) << error;
  EXPECT_TRUE(contains(error, "cuLaunchKernel")) << error;
  EXPECT_FALSE(contains(error, "cuInit")) << error;
}

TEST(CudaDriver, AnOldDriverSaysWhatIsNeeded) {
  standin::Options options;
  options.driver_version = 12080;
  StandIn standin(options);
  std::string error;
  EXPECT_EQ(standin.open(&error), nullptr);
  EXPECT_TRUE(contains(error, "offers CUDA 12.8")) << error;
  EXPECT_TRUE(contains(error, "need CUDA 13.0 (driver 580 or newer)")) << error;
  const auto older = Driver::open({StandIn::path(), 12000}, &error);
  EXPECT_NE(older, nullptr) << error;
}

// By itself it asks for the release of the compiler that made the kernels, whatever its minor.
TEST(CudaDriver, NeedsTheReleaseOfTheKernels) {
  EXPECT_EQ(device::cuda::DriverOptions{}.needed_version, STEPGATE_TEST_CUDA_MAJOR * 1000);
}

TEST(CudaDriver, AFailedStartIsNamed) {
  StandIn standin;
  standin.control().fail("cuInit", 0, 100, 1);
  std::string error;
  EXPECT_EQ(standin.open(&error), nullptr);
  EXPECT_TRUE(contains(error, "cuInit: CUDA_ERROR_NO_DEVICE (100)")) << error;
}

TEST(CudaDevice, RefusesWhatItCannotRunOn) {
  StandIn standin;
  std::string error;
  const auto driver = standin.open(&error);
  EXPECT_EQ(CudaDevice::create({nullptr, 0, StandIn::image()}, &error), nullptr);
  EXPECT_TRUE(contains(error, "no driver")) << error;
  EXPECT_EQ(CudaDevice::create({driver, 0, nullptr}, &error), nullptr);
  EXPECT_TRUE(contains(error, "carries no CUDA kernels")) << error;
  EXPECT_EQ(CudaDevice::create({driver, 1, StandIn::image()}, &error), nullptr);
  EXPECT_EQ(error, "CUDA device 1; allowed: 0 to 0");
  EXPECT_EQ(CudaDevice::create({driver, -1, StandIn::image()}, &error), nullptr);
  standin::Options options;
  options.unified_addressing = false;
  standin.control().configure(options);
  EXPECT_EQ(CudaDevice::create({driver, 0, StandIn::image()}, &error), nullptr);
  EXPECT_TRUE(contains(error, "unified addressing")) << error;
  options = {};
  options.knows_image = false;
  standin.control().configure(options);
  EXPECT_EQ(CudaDevice::create({driver, 0, StandIn::image()}, &error), nullptr);
  EXPECT_TRUE(contains(error, "cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU (209); the kernels")) << error;
}

// A build without nvcc: only the stand-in takes what stands for the kernels.
TEST(CudaDevice, TheStubIsNamed) {
  StandIn standin;
  std::string error;
  const auto driver = standin.open(&error);
  const char stub[64] = "STEPGATE: built without nvcc";
  EXPECT_NE(CudaDevice::create({driver, 0, stub}, &error), nullptr) << error;
  for (const int refusal : {200, 209, 222}) {
    standin.control().fail("cuModuleLoadData", 0, refusal, 1);
    EXPECT_EQ(CudaDevice::create({driver, 0, stub}, &error), nullptr);
    EXPECT_EQ(error, "CudaDevice: this build carries no CUDA kernels (it was configured without nvcc)");
  }
  // What a lost device answers is no word on the image.
  standin.control().fail("cuModuleLoadData", 0, 719, 1);
  EXPECT_EQ(CudaDevice::create({driver, 0, stub}, &error), nullptr);
  EXPECT_TRUE(contains(error, "CUDA_ERROR_LAUNCH_FAILED")) << error;
}

// Which it is, this build knows.
TEST(CudaFatbin, SaysWhatItIs) {
  const std::string begin(reinterpret_cast<const char*>(stepgate_fatbin), sizeof cuda::kStubText - 1);
  EXPECT_EQ(begin == cuda::kStubText, stepgate_have_fatbin == 0);
  EXPECT_EQ(stepgate_have_fatbin != 0, STEPGATE_TEST_HAVE_NVCC != 0);
  EXPECT_GE(stepgate_fatbin_size, 64u);
}

TEST(CudaDevice, NoDeviceAtAll) {
  standin::Options options;
  options.devices = 0;
  StandIn standin(options);
  std::string error;
  const auto driver = standin.open(&error);
  ASSERT_NE(driver, nullptr) << error;
  EXPECT_EQ(CudaDevice::create({driver, 0, StandIn::image()}, &error), nullptr);
  EXPECT_TRUE(contains(error, "sees no device")) << error;
}

TEST(CudaDevice, MemoryIsZeroedAndAligned) {
  standin::Options options;
  options.max_delay_us = 1000;  // memory that is only about to be zero would show
  options.seed = test_seed();
  StandIn standin(options);
  const auto cuda = standin.device();
  ASSERT_NE(cuda, nullptr);
  EXPECT_STREQ(cuda->name(), "cuda");
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{256}, std::size_t{100000}}) {
    auto* device = cuda->allocate(bytes, device::Memory::kDevice);
    auto* mapped = static_cast<unsigned char*>(cuda->allocate(bytes, device::Memory::kMapped));
    ASSERT_TRUE(device != nullptr && mapped != nullptr) << cuda->last_error();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(device) % 256, 0u);
    EXPECT_EQ(cuda->copy_out(nullptr, mapped, device, bytes), device::Code::kOk);
    EXPECT_EQ(cuda->synchronize(nullptr), device::Code::kOk);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(mapped[i], 0) << i;
    cuda->release(device, device::Memory::kDevice);
    cuda->release(mapped, device::Memory::kMapped);
  }
  cuda->release(nullptr, device::Memory::kDevice);
  EXPECT_EQ(cuda->allocate(~std::size_t{0}, device::Memory::kDevice), nullptr);
  EXPECT_EQ(std::string(cuda->last_error()),
            "allocate: cuMemAlloc_v2(18446744073709551615 bytes on device 0): CUDA_ERROR_OUT_OF_MEMORY (2)");
}

// What the caller did not release goes with the device.
TEST(CudaDevice, TakesItsMemoryAlong) {
  StandIn standin;
  {
    const auto cuda = standin.device();
    ASSERT_NE(cuda, nullptr);
    ASSERT_NE(cuda->allocate(1000, device::Memory::kDevice), nullptr);
    ASSERT_NE(cuda->allocate(1000, device::Memory::kMapped), nullptr);
  }
  EXPECT_TRUE(standin.control().account().empty());
}

// The source may be gone as soon as copy_in returns, however late the stream gets there.
TEST(CudaDevice, SmallCopiesKeepTheirBytes) {
  standin::Options options;
  options.max_delay_us = 3000;
  options.seed = test_seed();
  StandIn standin(options);
  const auto cuda = standin.device();
  ASSERT_NE(cuda, nullptr);
  constexpr std::size_t kBytes = device::kSmallCopyBytes;
  auto* device = cuda->allocate(kBytes, device::Memory::kDevice);
  auto* mapped = static_cast<unsigned char*>(cuda->allocate(kBytes, device::Memory::kMapped));
  ASSERT_TRUE(device != nullptr && mapped != nullptr);
  const JobStream stream(standin);
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{4}, std::size_t{3584}, std::size_t{3585}, kBytes}) {
    std::vector<unsigned char> source(bytes);
    for (std::size_t i = 0; i < bytes; ++i) source[i] = static_cast<unsigned char>(i * 7 + bytes);
    const std::vector<unsigned char> want = source;
    standin.control().forget_calls();
    ASSERT_EQ(cuda->copy_in(stream.get(), device, source.data(), bytes), device::Code::kOk);
    std::fill(source.begin(), source.end(), 0xee);
    for (const standin::CallRecord& c : standin.calls()) EXPECT_EQ(c.waited, 0) << c.name;
    ASSERT_EQ(cuda->copy_out(stream.get(), mapped, device, bytes), device::Code::kOk);
    ASSERT_EQ(cuda->synchronize(stream.get()), device::Code::kOk);
    EXPECT_EQ(std::vector<unsigned char>(mapped, mapped + bytes), want) << bytes;
  }
  cuda->release(device, device::Memory::kDevice);
  cuda->release(mapped, device::Memory::kMapped);
}

TEST(CudaDevice, RefusesArguments) {
  StandIn standin;
  const auto cuda = standin.device();
  ASSERT_NE(cuda, nullptr);
  using device::Code;
  auto* g = static_cast<GateBlock*>(cuda->allocate(sizeof(GateBlock), device::Memory::kDevice));
  auto* stats = reinterpret_cast<GradStats*>(g);
  double* fields = reinterpret_cast<double*>(g);
  const device::Segment odd{reinterpret_cast<const char*>(g) + 1, 2};
  standin.control().forget_calls();
  EXPECT_EQ(cuda->begin_step(nullptr, {}), Code::kInvalid);
  EXPECT_EQ(cuda->begin_step(nullptr, {.g = g, .slot_count = 1}), Code::kInvalid);
  EXPECT_EQ(cuda->summarize(nullptr, {.g = g, .set = kMaxSets, .fields = fields}), Code::kInvalid);
  EXPECT_EQ(std::string(cuda->last_error()), "summarize: set 8; allowed: 0 to 7");
  EXPECT_EQ(cuda->summarize(nullptr, {.g = g, .slot_count = 1, .fields = fields}), Code::kInvalid);
  EXPECT_EQ(cuda->summarize(nullptr, {.g = g}), Code::kInvalid);
  EXPECT_EQ(cuda->decide(nullptr, g, 0, nullptr), Code::kInvalid);
  EXPECT_EQ(cuda->veto(nullptr, nullptr), Code::kInvalid);
  EXPECT_EQ(cuda->mark_applied(nullptr, g, 9), Code::kInvalid);
  device::FinishStep finish;
  EXPECT_EQ(cuda->finish_step(nullptr, finish), Code::kInvalid);
  finish.g = g;
  finish.publish_sets = 1;
  EXPECT_EQ(cuda->finish_step(nullptr, finish), Code::kInvalid);
  finish.publish_sets = 0;
  finish.slot_count = 1;
  EXPECT_EQ(cuda->finish_step(nullptr, finish), Code::kInvalid);
  finish.slot_count = 0;
  finish.decide_set = 0;
  EXPECT_EQ(cuda->finish_step(nullptr, finish), Code::kInvalid);
  finish.decide_set = 8;
  finish.fields = fields;
  EXPECT_EQ(cuda->finish_step(nullptr, finish), Code::kInvalid);
  EXPECT_EQ(std::string(cuda->last_error()), "finish_step: set 8; allowed: 0 to 7");
  EXPECT_EQ(cuda->observe_update(nullptr, {}), Code::kInvalid);
  EXPECT_EQ(cuda->observe_update(nullptr, {.stored = ElementType::kFp8E5M2}), Code::kUnsupported);
  device::UpdateStats* updates = reinterpret_cast<device::UpdateStats*>(g);
  EXPECT_EQ(cuda->observe_update(nullptr, {.before = g, .after = g, .count = 1, .total = updates}),
            Code::kInvalid);
  EXPECT_EQ(cuda->observe_update(nullptr,
                                 {.before = g, .after = g, .update = odd.data, .count = 1, .total = updates}),
            Code::kInvalid);
  device::Scan jobs[2];
  jobs[0].total = jobs[1].total = stats;
  jobs[1].epoch = &g->step;
  EXPECT_EQ(cuda->scan(nullptr, jobs[1]), Code::kInvalid);
  jobs[1].epoch = nullptr;
  jobs[1].unless_stamped = true;
  EXPECT_EQ(cuda->scan(nullptr, jobs[1]), Code::kInvalid);
  jobs[1].unless_stamped = false;
  jobs[1].stored = ElementType::kFp8E4M3;
  jobs[1].unscale_by = &g->latched_scale;
  EXPECT_EQ(cuda->scan(nullptr, jobs[1]), Code::kUnsupported);
  EXPECT_EQ(cuda->scan_all(nullptr, jobs), Code::kUnsupported);
  EXPECT_EQ(cuda->scan_all(nullptr, {}), Code::kOk);
  EXPECT_EQ(cuda->apply_all(nullptr, {}), Code::kOk);
  EXPECT_EQ(cuda->copy_in(nullptr, nullptr, fields, 1), Code::kInvalid);
  EXPECT_EQ(cuda->copy_out(nullptr, nullptr, nullptr, 0), Code::kOk);
  EXPECT_EQ(cuda->scan(nullptr, {}), Code::kInvalid);
  EXPECT_EQ(cuda->scan(nullptr, {.segments = {&odd, 1}, .stored = ElementType::kBf16, .total = stats}),
            Code::kInvalid);
  const device::Segment null{nullptr, 2};
  EXPECT_EQ(cuda->scan(nullptr, {.segments = {&null, 1}, .total = stats}), Code::kInvalid);
  EXPECT_EQ(
      cuda->apply(nullptr,
                  {.data = g, .count = 1, .stored = ElementType::kFp8E4M3, .outputs = &g->sets[0].outputs}),
      Code::kUnsupported);
  EXPECT_EQ(cuda->apply(nullptr, {.data = g, .count = 1}), Code::kInvalid);
  EXPECT_EQ(cuda->apply(nullptr, {.data = g, .count = 1, .outputs = &g->sets[0].outputs, .out = g}),
            Code::kUnsupported);
  EXPECT_TRUE(standin.calls().empty());
  cuda->release(g, device::Memory::kDevice);
}

}  // namespace
}  // namespace stepgate::test

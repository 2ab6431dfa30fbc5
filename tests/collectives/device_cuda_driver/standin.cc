#include "tests/collectives/device_cuda_driver/standin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <iostream>
#include <random>

namespace stepgate::test {

using device::CudaDevice;
using device::cuda::Driver;
using device::cuda::Result;

const char* StandIn::path() {
  return STEPGATE_STANDIN_CUDA;
}

const void* StandIn::image() {
  static const char bytes[] = "any image";
  return bytes;
}

StandIn::StandIn(const standin::Options& options) {
  void* library = dlopen(path(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();
    std::abort();
  }
  void* found = dlsym(library, standin::kControlSymbol);
  control_ = reinterpret_cast<standin::ControlFunction>(found)();
  control_->configure(options);
}

StandIn::~StandIn() {
  const standin::Account left = control_->account();
  EXPECT_TRUE(left.empty()) << "left: " << left.device_blocks << " device blocks, " << left.pinned_blocks
                            << " pinned, " << left.contexts << " contexts, " << left.modules << " modules, "
                            << left.streams << " streams, " << left.events << " events, " << left.graphs
                            << " graphs";
  EXPECT_EQ(left.misuses, 0);
  control_->configure({});
}

std::shared_ptr<Driver> StandIn::open(std::string* error) const {
  return Driver::open({path(), 13000}, error);
}

std::unique_ptr<CudaDevice> StandIn::device(int ordinal) const {
  std::string error;
  auto driver = open(&error);
  EXPECT_NE(driver, nullptr) << error;
  auto made = driver != nullptr ? CudaDevice::create({driver, ordinal, image()}, &error) : nullptr;
  EXPECT_NE(made, nullptr) << error;
  return made;
}

std::vector<standin::CallRecord> StandIn::calls() const {
  std::vector<standin::CallRecord> list(control_->calls(nullptr, 0));
  control_->calls(list.data(), list.size());
  return list;
}

std::uint64_t StandIn::count(const std::string& name) const {
  std::uint64_t n = 0;
  for (const standin::CallRecord& c : calls()) n += name == c.name;
  return n;
}

JobStream::JobStream(const StandIn& standin, int ordinal, bool blocking) : ordinal_(ordinal) {
  std::string error;
  driver_ = standin.open(&error);
  EXPECT_NE(driver_, nullptr) << error;
  const auto& api = driver_->api();
  EXPECT_EQ(driver_->call(api.DevicePrimaryCtxRetain, &context_, ordinal), Result::kSuccess);
  EXPECT_EQ(driver_->call(api.CtxPushCurrent, context_), Result::kSuccess);
  const unsigned flags = blocking ? 0 : device::cuda::kStreamNonBlocking;
  EXPECT_EQ(driver_->call(api.StreamCreate, &stream_, flags), Result::kSuccess);
}

JobStream::~JobStream() {
  const auto& api = driver_->api();
  device::cuda::ContextHandle popped = nullptr;
  EXPECT_EQ(driver_->call(api.StreamDestroy, stream_), Result::kSuccess);
  EXPECT_EQ(driver_->call(api.CtxPopCurrent, &popped), Result::kSuccess);
  EXPECT_EQ(popped, context_);
  EXPECT_EQ(driver_->call(api.DevicePrimaryCtxRelease, ordinal_), Result::kSuccess);
}

}  // namespace stepgate::test

// The stand-in driver as a test uses it: opened from where it was built, with its control table.
//
// Thread: the test's. Order: one StandIn at a time; its end checks that nothing is left allocated.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "collectives/device/cuda/cuda_device.h"
#include "tests/standin_cuda/driver/control.h"

namespace stepgate::test {

class StandIn {
 public:
  explicit StandIn(const standin::Options& options = {});
  ~StandIn();
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  const standin::Control& control() const { return *control_; }
  // Any bytes will do for an image here.
  static const void* image();
  static const char* path();

  std::shared_ptr<device::cuda::Driver> open(std::string* error) const;
  // Fails the test where there is none.
  std::unique_ptr<device::CudaDevice> device(int ordinal = 0) const;
  std::vector<standin::CallRecord> calls() const;
  std::uint64_t count(const std::string& name) const;

 private:
  const standin::Control* control_ = nullptr;
};

// A stream of the device's context, with the context current for as long as it lives.
class JobStream {
 public:
  explicit JobStream(const StandIn& standin, int ordinal = 0, bool blocking = false);
  ~JobStream();
  JobStream(const JobStream&) = delete;
  JobStream& operator=(const JobStream&) = delete;

  device::Stream get() const { return stream_; }
  device::cuda::ContextHandle context() const { return context_; }
  const device::cuda::Driver& driver() const { return *driver_; }

 private:
  std::shared_ptr<device::cuda::Driver> driver_;
  device::cuda::ContextHandle context_ = nullptr;
  device::cuda::StreamHandle stream_ = nullptr;
  int ordinal_;
};

}  // namespace stepgate::test

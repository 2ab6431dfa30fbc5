// Where a guest job keeps its gradient: host memory, or device memory of whatever libcuda.so.1 the loader
// finds (the stand-in, in these tests), whose primary context becomes the calling thread's.
//
// Thread: the one that made it. Ownership: lives until the process ends, as NCCL and the gate hold it.
#pragma once

#include <cstddef>
#include <vector>

namespace stepgate::test {

class GradientMemory {
 public:
  // on_device: what the environment variable GUEST_DEVICE=cuda asks for.
  GradientMemory(std::size_t count, bool on_device);
  float* data() { return data_; }
  std::size_t size() const { return values_.size(); }
  // As many as it has.
  void fill(const std::vector<float>& values);

 private:
  std::vector<float> values_;  // the gradient itself on the host
  float* data_ = nullptr;
  bool on_device_ = false;
};

bool device_wanted();

}  // namespace stepgate::test

// N ranks as threads of one test, each with a CUDA device of its own (the stand-in's), a gate on it, and
// gradients in its memory. What the job itself does (fill, reduce, read back) goes over the job's streams.
//
//   CudaWorld world({.ranks = 3});
//   world.run([](CudaRank& r) {
//     r.declare("bucket", {0, 1});            buffers 0 and 1, one parameter each
//     ASSERT_EQ(r.activate(), STEPGATE_OK);
//     r.begin();
//     r.fill(0, {1, 2, 3});                   enqueued, as a backward is
//     r.reduce(0);                            before, the job's all-reduce, after
//     const Step s = r.end_and_wait();
//   });
//
// Thread: run() starts one per rank, its device's context current; a CudaRank belongs to its thread.
// Ownership: the world owns all; gates go before devices, devices before the stand-in checks its account.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugin/core/gate.h"
#include "plugin/core/last_error.h"
#include "tests/collectives/device_cuda_driver/standin.h"
#include "tests/plugin/cuda/stream_nccl.h"

namespace stepgate::test {

struct CudaWorldOptions {
  int ranks = 2;
  unsigned max_delay_us = 0;  // before every operation of a stream
  bool guard = false;
  StepPolicy policy = {};
  ScalerParams params = default_params(ScalerRule::kTorch);
  gate::Attribution attribution = gate::Attribution::kAuto;
};

struct CudaStep {
  stepgate_status end = STEPGATE_OK;     // of step_end
  stepgate_status status = STEPGATE_OK;  // of step_wait
  stepgate_decision decision{};
  std::string error;

  bool applies() const { return status == STEPGATE_OK && decision.skip == 0; }
};

class CudaRank {
 public:
  static constexpr std::size_t kElements = 300;  // of a buffer
  static constexpr int kBuffers = 4;

  CudaRank(const StandIn& standin, StreamNccl& nccl, int rank, const CudaWorldOptions& options);
  ~CudaRank();
  CudaRank(const CudaRank&) = delete;
  CudaRank& operator=(const CudaRank&) = delete;

  int rank() const { return rank_; }
  gate::Gate& gate() { return *gate_; }
  device::CudaDevice& device() { return *device_; }
  const device::cuda::Driver& driver() const { return *driver_; }
  StreamNccl& nccl() { return nccl_; }
  const StandIn& standin() const { return standin_; }
  ncclComm_t comm() { return nccl_.comm(rank_); }
  device::Stream stream() const { return stream_; }     // where the step is
  device::Stream side_stream() const { return side_; }  // not ordered with it by anybody but the gate
  float* buffer(int i) const { return buffers_[static_cast<std::size_t>(i)]; }
  Outputs* outputs(std::uint32_t set = 0);  // device memory

  std::uint32_t declare(const std::string& name, const std::vector<int>& buffers,
                        const std::function<void(gate::RangeSpec&)>& change = {});
  stepgate_status activate(device::Stream s);
  stepgate_status activate() { return activate(stream_); }
  void destroy_gate() { gate_.reset(); }
  device::Stream make_stream();
  // After its work.
  void destroy_stream(device::Stream s);

  // The job's own work, enqueued. The rest of the buffer becomes `rest`.
  void fill(int buffer, const std::vector<float>& head, float rest = 0) { fill(buffer, head, rest, stream_); }
  void fill(int buffer, const std::vector<float>& head, float rest, device::Stream s);
  Reduction reduction(int buffer, device::Stream s);
  ncclResult_t reduce(int buffer) { return reduce(buffer, stream_); }
  ncclResult_t reduce(int buffer, device::Stream s);

  void begin() { EXPECT_EQ(gate_->step_begin(stream_), STEPGATE_OK) << gate::last_error(); }
  CudaStep end_and_wait();
  CudaStep wait();
  // Waits; then the buffer as the host sees it.
  std::vector<float> read(int buffer, device::Stream s);
  Outputs read_outputs();
  void sync(device::Stream s) { EXPECT_EQ(device_->synchronize(s), device::Code::kOk); }

  // Records what `body` enqueues on s, and makes it launchable. The graphs live as long as the rank.
  device::cuda::GraphExecHandle record(device::Stream s, const std::function<void()>& body);
  void launch(device::cuda::GraphExecHandle exec, device::Stream s);

 private:
  const StandIn& standin_;
  StreamNccl& nccl_;
  const int rank_;
  std::shared_ptr<device::cuda::Driver> driver_;
  device::cuda::ContextHandle context_ = nullptr;
  std::unique_ptr<device::CudaDevice> device_;
  std::unique_ptr<gate::Gate> gate_;
  device::Stream stream_ = nullptr, side_ = nullptr;
  std::vector<float*> buffers_;
  std::vector<std::pair<device::cuda::GraphHandle, device::cuda::GraphExecHandle>> graphs_;
};

class CudaWorld {
 public:
  explicit CudaWorld(const CudaWorldOptions& options);
  ~CudaWorld();
  void run(const std::function<void(CudaRank&)>& body);
  CudaRank& rank(int r) { return *ranks_[static_cast<std::size_t>(r)]; }
  StandIn& standin() { return *standin_; }
  StreamNccl& nccl() { return *nccl_; }
  std::shared_ptr<device::cuda::Driver> driver() const;

 private:
  const CudaWorldOptions options_;
  std::unique_ptr<StandIn> standin_;
  std::unique_ptr<StreamNccl> nccl_;
  std::vector<std::unique_ptr<CudaRank>> ranks_;
};

}  // namespace stepgate::test

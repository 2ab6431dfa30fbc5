// A job of one rank with a communicator of NCCL's and a gate, as the user of the C API writes it: the
// plugin is only preloaded, and the program is linked to NCCL.
//
// Thread: the program's one. Order: as the functions stand. Lock: none. Ownership: the job owns its
// communicator, gate and gradients; the session is longer.
#pragma once

#include <string>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"
#include "stepgate/stepgate.h"
#include "tests/gpu/session.h"

namespace stepgate::gpu {

class GatedJob {
 public:
  GatedJob(Session& session, std::size_t elements);
  ~GatedJob();
  GatedJob(const GatedJob&) = delete;
  GatedJob& operator=(const GatedJob&) = delete;

  // What went wrong while it was made; "" for nothing.
  const std::string& problem() const { return problem_; }
  void put(const std::vector<float>& gradients);
  // step_begin, the job's own all-reduce, step_end: enqueued, not waited for. "" or what failed.
  std::string step();
  std::string decide(stepgate_decision* decision);
  // Waits; reads the fixed output block where it lives.
  stepgate_outputs_t outputs();
  const stepgate_outputs_t* outputs_address() const { return outputs_; }
  const float* gradients() const { return gradients_; }
  std::size_t elements() const { return elements_; }
  ncclComm_t communicator() const { return comm_; }
  cudaStream_t stream() const { return stream_; }

 private:
  bool nccl_ok(const char* what, ncclResult_t result);
  bool gate_ok(const char* what, stepgate_status status);
  void make();

  Session& session_;
  std::size_t elements_;
  cudaStream_t stream_ = nullptr;
  float* gradients_ = nullptr;
  ncclComm_t comm_ = nullptr;
  stepgate_gate* gate_ = nullptr;
  const stepgate_outputs_t* outputs_ = nullptr;
  std::string problem_;
};

}  // namespace stepgate::gpu

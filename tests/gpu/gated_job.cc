#include "tests/gpu/gated_job.h"

#include "stepgate/client.h"

namespace stepgate::gpu {

GatedJob::GatedJob(Session& session, std::size_t elements)
    : session_(session), elements_(elements), stream_(static_cast<cudaStream_t>(session.stream())) {
  void* memory = session.device().allocate(elements * sizeof(float), device::Memory::kDevice);
  if (memory == nullptr) give_up(session.device().last_error());
  gradients_ = static_cast<float*>(memory);
  make();
}

GatedJob::~GatedJob() {
  if (gate_ != nullptr) {
    stepgate_client_remove_group(gate_, comm_);
    stepgate_client_gate_destroy(gate_);
  }
  if (comm_ != nullptr) ncclCommDestroy(comm_);
  session_.device().release(gradients_, device::Memory::kDevice);
}

bool GatedJob::nccl_ok(const char* what, ncclResult_t result) {
  if (result != ncclSuccess) problem_ = std::string(what) + " returned " + std::to_string(result);
  return result == ncclSuccess;
}

bool GatedJob::gate_ok(const char* what, stepgate_status status) {
  if (status == STEPGATE_OK) return true;
  problem_ =
      std::string(what) + ": " + stepgate_client_status_string(status) + ": " + stepgate_client_last_error();
  return false;
}

void GatedJob::make() {
  if (!gate_ok("the plugin is preloaded", stepgate_client_load())) return;
  ncclUniqueId id;
  if (!nccl_ok("ncclGetUniqueId", ncclGetUniqueId(&id)) ||
      !nccl_ok("ncclCommInitRank", ncclCommInitRank(&comm_, 1, id, 0))) {
    return;
  }
  stepgate_gate_config config{};
  config.size = sizeof config;
  config.world = 1;
  config.rule = "torch";
  config.initial_scale = 1024;
  if (!gate_ok("stepgate_gate_create", stepgate_client_gate_create(&config, &gate_)) ||
      !gate_ok("stepgate_add_group", stepgate_client_add_group(gate_, comm_, 0))) {
    return;
  }
  const std::size_t half = elements_ / 2;
  const stepgate_segment segments[] = {{"first", gradients_, half},
                                       {"second", gradients_ + half, elements_ - half}};
  stepgate_range range{};
  range.size = sizeof range;
  range.name = "bucket0";
  range.segments = segments;
  range.segment_count = 2;
  range.type = STEPGATE_FP32;
  range.compute_type = -1;
  uint32_t number = 0;
  gate_ok("stepgate_declare_range", stepgate_client_declare_range(gate_, &range, &number)) &&
      gate_ok("stepgate_enforce_begin", stepgate_client_enforce_begin(gate_, stream_)) &&
      gate_ok("stepgate_outputs", stepgate_client_outputs(gate_, 0, &outputs_));
}

void GatedJob::put(const std::vector<float>& gradients) {
  const std::size_t bytes = gradients.size() * sizeof(float);
  if (session_.device().copy_in(stream_, gradients_, gradients.data(), bytes) != device::Code::kOk) {
    give_up(session_.device().last_error());
  }
  session_.wait();
}

std::string GatedJob::step() {
  problem_.clear();
  gate_ok("stepgate_step_begin", stepgate_client_step_begin(gate_, stream_)) &&
      nccl_ok("ncclAllReduce",
              ncclAllReduce(gradients_, gradients_, elements_, ncclFloat32, ncclSum, comm_, stream_)) &&
      gate_ok("stepgate_step_end", stepgate_client_step_end(gate_, 0, stream_));
  return problem_;
}

std::string GatedJob::decide(stepgate_decision* decision) {
  problem_.clear();
  *decision = {};
  decision->size = sizeof *decision;
  gate_ok("stepgate_step_wait", stepgate_client_step_wait(gate_, 0, decision));
  return problem_;
}

stepgate_outputs_t GatedJob::outputs() {
  stepgate_outputs_t copy;
  session_.wait();
  if (session_.device().copy_out(stream_, &copy, outputs_, sizeof copy) != device::Code::kOk) {
    give_up(session_.device().last_error());
  }
  session_.wait();
  return copy;
}

}  // namespace stepgate::gpu

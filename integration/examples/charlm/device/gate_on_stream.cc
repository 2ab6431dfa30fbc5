#include "integration/examples/charlm/device/gate_on_stream.h"

#include <stdexcept>
#include <utility>

namespace stepgate::charlm {

std::unique_ptr<DeviceJudge> GateOnStream::try_make(const JudgeContext& context, Device& device) {
  std::unique_ptr<Gate> gate = Gate::create(context);
  if (gate == nullptr || !gate->enforce()) return nullptr;
  return std::unique_ptr<DeviceJudge>(new GateOnStream(std::move(gate), device, context.steps_done));
}

GateOnStream::GateOnStream(std::unique_ptr<Gate> gate, Device& device, std::uint64_t steps_done)
    : gate_(std::move(gate)),
      device_(device),
      copy_(device.pinned<stepgate_outputs_t>(1)),
      step_(steps_done) {
  Gate::check(stepgate_client_outputs(gate_->handle(), 0, &outputs_), "stepgate_outputs");
  enqueue_copy();
  device_.synchronize();  // the first backward needs a scale
  scale_ = copy_->scale;
}

// After the backward, which is host code here and does nothing on the stream. Its scale is the one that is
// latched now: only a step's end moves it.
void GateOnStream::enqueue_begin() {
  Gate::check(stepgate_client_step_begin(gate_->handle(), gate_->stream()), "stepgate_step_begin");
}

// A failure inside the plugin is no reason to leave: found_inf stays 1, and all ranks hear of it together.
void GateOnStream::enqueue_end() {
  const stepgate_status status = stepgate_client_step_end(gate_->handle(), 0, gate_->stream());
  if (status != STEPGATE_FAILED && status != STEPGATE_UNDECIDED) Gate::check(status, "stepgate_step_end");
}

void GateOnStream::enqueue_copy() {
  device_.download(copy_, outputs_, sizeof *copy_);
}

Verdict GateOnStream::end() {
  ++step_;
  Verdict verdict{{step_, false, "none", scale_, copy_->norm}, copy_->grad_scale};
  if (copy_->found_inf != 0) verdict = skipped();
  scale_ = copy_->scale;
  gate_->keep_up(step_);
  return verdict;
}

// For the reports: the kernels have long obeyed.
Verdict GateOnStream::skipped() {
  stepgate_scaler_info info{};
  info.size = sizeof info;
  Gate::check(stepgate_client_state(gate_->handle(), &info), "stepgate_state");
  if (info.released != 0) throw std::runtime_error("the ranks' agreement has ended");
  gate_->fetch_offenders(step_);
  gate_->steps();
  const stepgate_decision& newest = gate_->newest();
  if (newest.step != step_) return {{step_, true, "none", scale_, 0}, 1};
  return {row_of(newest), 1, newest.offender};
}

}  // namespace stepgate::charlm

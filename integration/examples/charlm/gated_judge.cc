#include "integration/examples/charlm/gated_judge.h"

#include <utility>

namespace stepgate::charlm {

std::unique_ptr<Judge> GatedJudge::try_make(const JudgeContext& context) {
  std::unique_ptr<Gate> gate = Gate::create(context);
  if (gate == nullptr || !gate->enforce()) return nullptr;
  return std::unique_ptr<Judge>(new GatedJudge(std::move(gate)));
}

double GatedJudge::begin() {
  double scale = 0;
  Gate::check(stepgate_client_step_begin(gate_->handle(), nullptr), "stepgate_step_begin");
  Gate::check(stepgate_client_scale(gate_->handle(), &scale), "stepgate_scale");
  return scale;
}

Verdict GatedJudge::end() {
  stepgate_client_step_end(gate_->handle(), 0, nullptr);  // step_wait says what came of it
  stepgate_decision decision{};
  decision.size = sizeof decision;
  Gate::check(stepgate_client_step_wait(gate_->handle(), 0, &decision), "stepgate_step_wait");
  if (decision.overflow != 0) gate_->fetch_offenders(decision.step);
  gate_->keep_up(decision.step);
  return {row_of(decision), static_cast<float>(decision.grad_scale), decision.offender};
}

}  // namespace stepgate::charlm

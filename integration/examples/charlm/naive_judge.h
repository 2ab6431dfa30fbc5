// What a job does without StepGate: each rank looks at its own reduced gradients and moves its own
// loss scale. With ddp all ranks see the same bytes; with zero1 they do not, and drift apart.
//
// Thread, order, lock: as judge.h says. Ownership: lent the gradients.
#pragma once

#include "integration/examples/charlm/judge.h"

namespace stepgate::charlm {

class NaiveJudge final : public Judge {
 public:
  explicit NaiveJudge(const JudgeContext& context);

  bool gated() const override { return false; }
  double begin() override { return state_.scale; }
  Verdict end() override;
  const std::vector<StepRow>& steps() override { return steps_; }
  const std::vector<OffenderRow>& offenders() override { return offenders_; }
  std::string metrics_url() const override { return ""; }
  std::vector<unsigned char> save() override;

 private:
  struct State {
    double scale;
    std::uint64_t good_steps;
    std::uint64_t step;
  };

  void move_scale(bool overflow);
  float grad_scale(double norm) const;

  ReducedGradients& gradients_;
  std::uint64_t interval_;
  double max_norm_;
  State state_;
  std::vector<StepRow> steps_;
  std::vector<OffenderRow> offenders_;
};

}  // namespace stepgate::charlm

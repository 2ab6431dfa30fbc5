// The judge that asks StepGate: one decision per step, the same on all ranks.
//
// Thread, order, lock: as judge.h says. Ownership: owns the gate.
#pragma once

#include "integration/examples/charlm/gate.h"

namespace stepgate::charlm {

class GatedJudge final : public Judge {
 public:
  // Null where no plugin answers, or where the ranks do not enforce. Collective.
  static std::unique_ptr<Judge> try_make(const JudgeContext& context);

  bool gated() const override { return true; }
  double begin() override;
  Verdict end() override;
  const std::vector<StepRow>& steps() override { return gate_->steps(); }
  const std::vector<OffenderRow>& offenders() override { return gate_->offenders(); }
  std::string metrics_url() const override { return gate_->metrics_url(); }
  std::vector<unsigned char> save() override { return gate_->save(); }

 private:
  explicit GatedJudge(std::unique_ptr<Gate> gate) : gate_(std::move(gate)) {}

  std::unique_ptr<Gate> gate_;
};

}  // namespace stepgate::charlm

// The judge that asks StepGate: one decision per step, the same on all ranks.
//
// Thread, order, lock: as judge.h says. Ownership: owns the gate, which is destroyed before the
// communicator and the strategy whose memory it watches.
#pragma once

#include "integration/examples/charlm/judge.h"
#include "stepgate/client.h"

namespace stepgate::charlm {

class GatedJudge final : public Judge {
 public:
  // Null where no plugin answers, or where the ranks do not enforce. Collective.
  static std::unique_ptr<Judge> try_make(const JudgeContext& context);
  ~GatedJudge() override;

  bool gated() const override { return true; }
  double begin() override;
  Verdict end() override;
  const std::vector<StepRow>& steps() override;
  const std::vector<OffenderRow>& offenders() override { return offenders_; }
  std::string metrics_url() const override;
  std::vector<unsigned char> save() override;

 private:
  GatedJudge(const JudgeContext& context, stepgate_gate* gate);
  void declare(const Strategy& strategy);
  // False: refused, or the mode is not enforce.
  bool activate();
  void fetch_history();
  void fetch_offenders(std::uint64_t step);

  Communicator& communicator_;
  stepgate_gate* gate_;
  std::uint64_t fetched_;  // newest step of steps_
  std::vector<StepRow> steps_;
  std::vector<OffenderRow> offenders_;
};

}  // namespace stepgate::charlm

// The judge that has a StepGate gate decide on the stream. No call of a step waits: what came of a step is
// read from the copy of the gate's outputs, when the stream has passed it, and from the gate's records.
//
// Thread, order, lock: as device_judge.h says. Ownership: owns the gate; the device is lent.
#pragma once

#include "integration/examples/charlm/device/device.h"
#include "integration/examples/charlm/device/device_judge.h"
#include "integration/examples/charlm/gate.h"

namespace stepgate::charlm {

class GateOnStream final : public DeviceJudge {
 public:
  // Null where no plugin answers, or where the ranks do not enforce. Collective.
  static std::unique_ptr<DeviceJudge> try_make(const JudgeContext& context, Device& device);

  bool gated() const override { return true; }
  double begin() override { return scale_; }
  void enqueue_begin() override;
  void enqueue_end() override;
  void enqueue_copy() override;
  const stepgate_outputs_t* outputs() const override { return outputs_; }
  bool capturable() const override { return true; }
  Verdict end() override;

  const std::vector<StepRow>& steps() override { return gate_->steps(); }
  const std::vector<OffenderRow>& offenders() override { return gate_->offenders(); }
  std::string metrics_url() const override { return gate_->metrics_url(); }
  std::vector<unsigned char> save() override { return gate_->save(); }

 private:
  GateOnStream(std::unique_ptr<Gate> gate, Device& device, std::uint64_t steps_done);
  Verdict skipped();

  std::unique_ptr<Gate> gate_;
  Device& device_;
  const stepgate_outputs_t* outputs_ = nullptr;  // device memory
  stepgate_outputs_t* copy_;                     // pinned
  double scale_ = 0;                             // of the next backward
  std::uint64_t step_;
};

}  // namespace stepgate::charlm

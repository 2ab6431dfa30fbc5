// Without the plugin: this rank alone looks at its reduced gradients, which it first has to copy to the host
// and wait for, and writes down for the optimizer's kernels what a gate would have.
//
// Thread, order, lock: as device_judge.h says. Ownership: gradients and device are lent.
#pragma once

#include "integration/examples/charlm/device/device.h"
#include "integration/examples/charlm/device/device_judge.h"
#include "integration/examples/charlm/naive_judge.h"

namespace stepgate::charlm {

class NaiveOnDevice final : public DeviceJudge {
 public:
  NaiveOnDevice(const JudgeContext& context, Device& device);

  bool gated() const override { return false; }
  double begin() override { return naive_.begin(); }
  void enqueue_begin() override {}
  void enqueue_end() override;
  void enqueue_copy() override {}
  const stepgate_outputs_t* outputs() const override { return outputs_; }
  bool capturable() const override { return false; }
  Verdict end() override { return verdict_; }

  const std::vector<StepRow>& steps() override { return naive_.steps(); }
  const std::vector<OffenderRow>& offenders() override { return naive_.offenders(); }
  std::string metrics_url() const override { return naive_.metrics_url(); }
  std::vector<unsigned char> save() override { return naive_.save(); }

 private:
  NaiveJudge naive_;
  Device& device_;
  stepgate_outputs_t* outputs_;  // device memory
  stepgate_outputs_t* pinned_;
  Verdict verdict_;
};

}  // namespace stepgate::charlm

#include "integration/examples/charlm/device/naive_on_device.h"

namespace stepgate::charlm {

NaiveOnDevice::NaiveOnDevice(const JudgeContext& context, Device& device)
    : naive_(context),
      device_(device),
      outputs_(device.memory<stepgate_outputs_t>(1)),
      pinned_(device.pinned<stepgate_outputs_t>(1)) {}

// Waits for the reductions, and so for the copy of the step before.
void NaiveOnDevice::enqueue_end() {
  verdict_ = naive_.end();
  const bool skip = verdict_.row.skip;
  *pinned_ = {};
  pinned_->found_inf = skip ? 1.0f : 0.0f;
  pinned_->grad_scale = verdict_.grad_scale;
  pinned_->multiplier = 1.0f / verdict_.grad_scale;
  pinned_->norm = skip ? 0.0f : static_cast<float>(verdict_.row.norm);
  pinned_->scale = static_cast<float>(naive_.begin());
  device_.upload(outputs_, pinned_, sizeof *pinned_);
}

}  // namespace stepgate::charlm

// CudaDevice: the steps of a gate, a launch each.
#include "collectives/device/cuda/checks.h"
#include "collectives/device/cuda/cuda_device.h"

namespace stepgate::device {

using cuda::ContextScope;
using cuda::Kernel;

namespace kernels = ::stepgate::cuda;

template <class Arguments>
Code CudaDevice::step_kernel(const char* operation, Kernel kernel, Stream s, const Arguments& a) noexcept {
  const ContextScope scope(*context_, operation);
  if (!scope) return scope.code();
  return kernels_->launch(operation, kernel, {1, kernels::kStepThreads}, s, a);
}

Code CudaDevice::block_kernel(const char* operation, Kernel kernel, Stream s, GateBlock* g,
                              std::uint32_t set) noexcept {
  if (const Code code = cuda::check_block(operation, g, set); code != Code::kOk) return code;
  return step_kernel(operation, kernel, s, kernels::BlockArguments{g, set, 0});
}

Code CudaDevice::begin_step(Stream s, const BeginStep& job) noexcept {
  if (const Code code = cuda::check_block("begin_step", job.g, 0); code != Code::kOk) return code;
  if (const Code code = cuda::check_slots("begin_step", job.slots, job.slot_count); code != Code::kOk) {
    return code;
  }
  return step_kernel("begin_step", Kernel::stepgate_begin_step, s,
                     kernels::BeginArguments{job.g, job.slots, job.mirror, job.slot_count, 0});
}

Code CudaDevice::summarize(Stream s, const Summarize& job) noexcept {
  if (const Code code = cuda::check_block("summarize", job.g, job.set); code != Code::kOk) return code;
  if (const Code code = cuda::check_slots("summarize", job.slots, job.slot_count); code != Code::kOk) {
    return code;
  }
  if (const Code code = cuda::check_fields("summarize", job.fields); code != Code::kOk) return code;
  return step_kernel("summarize", Kernel::stepgate_summarize, s,
                     kernels::SummarizeArguments{job.g, job.slots, job.fields, job.set, job.slot_count,
                                                 job.attributing, job.veto});
}

Code CudaDevice::decide(Stream s, GateBlock* g, std::uint32_t set, const double* fields) noexcept {
  if (const Code code = cuda::check_block("decide", g, set); code != Code::kOk) return code;
  if (const Code code = cuda::check_fields("decide", fields); code != Code::kOk) return code;
  return step_kernel("decide", Kernel::stepgate_decide, s, kernels::DecideArguments{g, fields, set, 0});
}

Code CudaDevice::finish_step(Stream s, const FinishStep& job) noexcept {
  if (const Code code = cuda::check_finish(job); code != Code::kOk) return code;
  const kernels::FinishArguments a{job.g,
                                   job.fields,
                                   job.slots,
                                   job.ring.records,
                                   job.ring.head,
                                   {job.table.slots[0], job.table.slots[1]},
                                   job.table.stamps,
                                   job.mirror,
                                   job.extras.timestamp_seconds,
                                   job.extras.scan_seconds,
                                   job.extras.agreement_seconds,
                                   job.decide_set,
                                   job.publish_sets,
                                   job.slot_count,
                                   0};
  return step_kernel("finish_step", Kernel::stepgate_finish_step, s, a);
}

Code CudaDevice::veto(Stream s, GateBlock* g) noexcept {
  return block_kernel("veto", Kernel::stepgate_veto, s, g, 0);
}

Code CudaDevice::mark_applied(Stream s, GateBlock* g, std::uint32_t set) noexcept {
  return block_kernel("mark_applied", Kernel::stepgate_mark_applied, s, g, set);
}

}  // namespace stepgate::device

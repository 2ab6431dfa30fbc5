// HostDevice: the steps of a gate, run at once.
#include <atomic>
#include <cstring>

#include "collectives/device/host/checks.h"
#include "collectives/device/host/fp_environment.h"
#include "collectives/device/host/host_device.h"
#include "collectives/device/host/publish_record.h"

namespace stepgate::device {

using host::check_block;
using host::check_slots;
using host::fail;

namespace {

void keep_summary(GateBlock* g, std::uint32_t set, const double* fields) noexcept {
  double* kept = g->sets[set].summary;
  if (kept != fields) std::memcpy(kept, fields, sizeof g->sets[set].summary);
}

void mirror_block(const GateBlock& g, GateBlock* mirror) noexcept {
  if (mirror != nullptr) std::memcpy(mirror, &g, sizeof g);
}

}  // namespace

Code HostDevice::begin_step(Stream, const BeginStep& job) noexcept {
  if (const Code code = check_block("begin_step", job.g, 0); code != Code::kOk) return code;
  if (const Code code = check_slots("begin_step", job.slots, job.slot_count); code != Code::kOk) return code;
  stepgate::begin_step(*job.g);
  clear_local(job.slots, job.slot_count);
  mirror_block(*job.g, job.mirror);
  return Code::kOk;
}

Code HostDevice::summarize(Stream, const Summarize& job) noexcept {
  if (const Code code = check_block("summarize", job.g, job.set); code != Code::kOk) return code;
  if (const Code code = check_slots("summarize", job.slots, job.slot_count); code != Code::kOk) return code;
  if (job.fields == nullptr) return fail(Code::kInvalid, "summarize: fields is null");
  const host::DefaultFpEnvironment environment;
  job.g->attributing = job.attributing;
  if (job.veto) job.g->veto = 1;
  summarize_set(*job.g, job.set, job.slots, job.slot_count, job.fields);
  keep_summary(job.g, job.set, job.fields);
  return Code::kOk;
}

Code HostDevice::decide(Stream, GateBlock* g, std::uint32_t set, const double* fields) noexcept {
  if (const Code code = check_block("decide", g, set); code != Code::kOk) return code;
  if (fields == nullptr) return fail(Code::kInvalid, "decide: fields is null");
  const host::DefaultFpEnvironment environment;
  keep_summary(g, set, fields);
  decide_set(*g, set, fields);
  return Code::kOk;
}

Code HostDevice::finish_step(Stream s, const FinishStep& job) noexcept {
  if (const Code code = check_block("finish_step", job.g, 0); code != Code::kOk) return code;
  if (const Code code = check_slots("finish_step", job.slots, job.slot_count); code != Code::kOk) return code;
  if (job.publish_sets != 0 && (job.ring.records == nullptr || job.ring.head == nullptr)) {
    return fail(Code::kInvalid, "finish_step: the ring is null");
  }
  if (job.decide_set >= 0) {
    const Code code = decide(s, job.g, static_cast<std::uint32_t>(job.decide_set), job.fields);
    if (code != Code::kOk) return code;
  }
  const host::DefaultFpEnvironment environment;
  update_scale(*job.g);
  for (std::uint32_t set = 0; set < kMaxSets; ++set) {
    if (!(job.publish_sets >> set & 1u)) continue;
    host::append_record(job.ring, host::gather_record(*job.g, set, job.slots, job.slot_count, job.extras));
  }
  if (job.table.stamps != nullptr) host::write_table(job.table, job.g->step, job.slots, job.slot_count);
  mirror_block(*job.g, job.mirror);
  return Code::kOk;
}

Code HostDevice::veto(Stream, GateBlock* g) noexcept {
  if (const Code code = check_block("veto", g, 0); code != Code::kOk) return code;
  g->veto = 1;
  return Code::kOk;
}

Code HostDevice::mark_applied(Stream, GateBlock* g, std::uint32_t set) noexcept {
  if (const Code code = check_block("mark_applied", g, set); code != Code::kOk) return code;
  stepgate::mark_applied(*g, set);
  return Code::kOk;
}

}  // namespace stepgate::device

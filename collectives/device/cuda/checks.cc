#include "collectives/device/cuda/checks.h"

#include "collectives/device/cuda/error_text.h"

namespace stepgate::device::cuda {
namespace {

bool is_type(ElementType t) {
  return static_cast<std::uint32_t>(t) < kElementTypeCount;
}

bool is_multiplied(ElementType t) {
  return static_cast<std::uint32_t>(t) <= static_cast<std::uint32_t>(ElementType::kFp64);
}

Code no_type(const char* operation, const char* which, ElementType t) {
  return fail(Code::kUnsupported, "%s: %s type %u is none; allowed: 0 to %u", operation, which,
              static_cast<unsigned>(t), kElementTypeCount - 1);
}

bool aligned(const void* data, ElementType t) {
  return reinterpret_cast<std::uintptr_t>(data) % element_size(t) == 0;
}

Code check_segment(const Segment& s, std::size_t i, ElementType t) {
  const auto count = static_cast<unsigned long long>(s.count);
  if (s.data == nullptr && s.count != 0) {
    return fail(Code::kInvalid, "scan: segment %zu has %llu elements and a null pointer", i, count);
  }
  if (aligned(s.data, t)) return Code::kOk;
  return fail(Code::kInvalid, "scan: segment %zu at %p is not aligned to its elements of %zu bytes", i,
              s.data, element_size(t));
}

}  // namespace

Code check_scan(const Scan& job) noexcept {
  if (!is_type(job.stored)) return no_type("scan", "element", job.stored);
  if (!is_type(job.compute)) {
    return fail(Code::kInvalid, "scan: compute type %u is none; allowed: 0 to %u",
                static_cast<unsigned>(job.compute), kElementTypeCount - 1);
  }
  if (job.total == nullptr && job.per_segment == nullptr && job.first_bad == nullptr) {
    return fail(Code::kInvalid, "scan: total, per_segment and first_bad are all null; give at least one");
  }
  if ((job.epoch == nullptr) != (job.stamp == nullptr) || (job.unless_stamped && job.stamp == nullptr)) {
    return fail(Code::kInvalid, "scan: epoch and stamp come together, and unless_stamped needs them");
  }
  if (job.unscale_by != nullptr && !is_multiplied(job.stored)) {
    return fail(Code::kUnsupported,
                "scan: in place with element type %u; allowed: 0 (fp32), 1 (fp16), 2 (bf16), 3 (fp64)",
                static_cast<unsigned>(job.stored));
  }
  for (std::size_t i = 0; i < job.segments.size(); ++i) {
    if (const Code code = check_segment(job.segments[i], i, job.stored); code != Code::kOk) return code;
  }
  return Code::kOk;
}

Code check_apply(const Apply& job) noexcept {
  if (!is_multiplied(job.stored)) {
    return fail(Code::kUnsupported, "apply: element type %u; allowed: 0 (fp32), 1 (fp16), 2 (bf16), 3 (fp64)",
                static_cast<unsigned>(job.stored));
  }
  if (job.outputs == nullptr) return fail(Code::kInvalid, "apply: outputs is null");
  if (job.data == nullptr && job.count != 0) {
    return fail(Code::kInvalid, "apply: %llu elements and a null pointer",
                static_cast<unsigned long long>(job.count));
  }
  if (!aligned(job.data, job.stored)) {
    return fail(Code::kInvalid, "apply: data at %p is not aligned to its elements of %zu bytes", job.data,
                element_size(job.stored));
  }
  if (job.out == nullptr) return Code::kOk;
  const bool widens = job.stored == ElementType::kFp16 || job.stored == ElementType::kBf16;
  if (widens && job.out_type == ElementType::kFp32) return Code::kOk;
  return fail(Code::kUnsupported,
              "apply: out of place from element type %u to %u; allowed: 1 (fp16) or 2 (bf16) to 0 (fp32)",
              static_cast<unsigned>(job.stored), static_cast<unsigned>(job.out_type));
}

Code check_block(const char* operation, const GateBlock* g, std::uint32_t set) noexcept {
  if (g == nullptr) return fail(Code::kInvalid, "%s: the gate block is null", operation);
  if (set < kMaxSets) return Code::kOk;
  return fail(Code::kInvalid, "%s: set %u; allowed: 0 to %u", operation, set, kMaxSets - 1);
}

Code check_slots(const char* operation, const RangeSlot* slots, std::uint32_t slot_count) noexcept {
  if (slots != nullptr || slot_count == 0) return Code::kOk;
  return fail(Code::kInvalid, "%s: %u slots and a null pointer", operation, slot_count);
}

Code check_fields(const char* operation, const double* fields) noexcept {
  return fields != nullptr ? Code::kOk : fail(Code::kInvalid, "%s: fields is null", operation);
}

Code check_update(const ObserveUpdate& job) noexcept {
  if (!is_multiplied(job.stored)) {
    return fail(Code::kUnsupported,
                "observe_update: element type %u; allowed: 0 (fp32), 1 (fp16), 2 (bf16), 3 (fp64)",
                static_cast<unsigned>(job.stored));
  }
  if (job.total == nullptr) return fail(Code::kInvalid, "observe_update: total is null");
  for (const void* data : {job.before, job.after, job.update}) {
    if (data == nullptr && job.count != 0) {
      return fail(Code::kInvalid, "observe_update: %llu elements and a null pointer",
                  static_cast<unsigned long long>(job.count));
    }
    if (!aligned(data, job.stored)) {
      return fail(Code::kInvalid, "observe_update: data at %p is not aligned to its elements of %zu bytes",
                  data, element_size(job.stored));
    }
  }
  return Code::kOk;
}

Code check_finish(const FinishStep& job) noexcept {
  if (const Code code = check_block("finish_step", job.g, 0); code != Code::kOk) return code;
  if (const Code code = check_slots("finish_step", job.slots, job.slot_count); code != Code::kOk) return code;
  if (job.publish_sets != 0 && (job.ring.records == nullptr || job.ring.head == nullptr)) {
    return fail(Code::kInvalid, "finish_step: the ring is null");
  }
  if (job.decide_set < 0) return Code::kOk;
  const Code code = check_block("finish_step", job.g, static_cast<std::uint32_t>(job.decide_set));
  return code == Code::kOk ? check_fields("finish_step", job.fields) : code;
}

Code check_copy(const char* operation, const void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes == 0 || (to != nullptr && from != nullptr)) return Code::kOk;
  return fail(Code::kInvalid, "%s: %zu bytes %s a null pointer", operation, bytes,
              to == nullptr ? "to" : "from");
}

}  // namespace stepgate::device::cuda

#include "collectives/device/host/checks.h"

#include <cstdarg>
#include <cstdio>

#include "collectives/device/host/kernels.h"

namespace stepgate::device::host {
namespace {

// The text of the calling thread's last failure.
char* error_text() noexcept {
  thread_local char text[256] = "no error";
  return text;
}

}  // namespace

const char* last_text() noexcept {
  return error_text();
}

Code fail(Code code, const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error_text(), 256, format, arguments);
  va_end(arguments);
  return code;
}

namespace {

Code unsupported_type(const char* operation, ElementType type) noexcept {
  return fail(Code::kUnsupported,
              "%s: element type %u is not supported on host memory; allowed: 0 (fp32), 1 (fp16), 2 (bf16), "
              "3 (fp64)",
              operation, static_cast<unsigned>(type));
}

}  // namespace

Code check_scan(const Scan& job) noexcept {
  if (static_cast<std::uint32_t>(job.stored) >= kElementTypeCount) {
    return fail(Code::kUnsupported, "scan: element type %u is none; allowed: 0 to %u",
                static_cast<unsigned>(job.stored), kElementTypeCount - 1);
  }
  if (job.unscale_by != nullptr && !is_multiplied(job.stored)) {
    return unsupported_type("scan in place", job.stored);
  }
  if (static_cast<std::uint32_t>(job.compute) >= kElementTypeCount) {
    return fail(Code::kInvalid, "scan: compute type %u is none; allowed: 0 to %u",
                static_cast<unsigned>(job.compute), kElementTypeCount - 1);
  }
  if (job.total == nullptr && job.per_segment == nullptr && job.first_bad == nullptr) {
    return fail(Code::kInvalid, "scan: total, per_segment and first_bad are all null; give at least one");
  }
  if ((job.epoch == nullptr) != (job.stamp == nullptr) || (job.unless_stamped && job.stamp == nullptr)) {
    return fail(Code::kInvalid, "scan: epoch and stamp come together, and unless_stamped needs them");
  }
  for (std::size_t i = 0; i < job.segments.size(); ++i) {
    const Segment& s = job.segments[i];
    if (s.data == nullptr && s.count != 0) {
      return fail(Code::kInvalid, "scan: segment %zu has %llu elements and a null pointer", i,
                  static_cast<unsigned long long>(s.count));
    }
  }
  return Code::kOk;
}

Code check_apply(const Apply& job) noexcept {
  if (!is_multiplied(job.stored)) return unsupported_type("apply", job.stored);
  if (job.outputs == nullptr) return fail(Code::kInvalid, "apply: outputs is null");
  if (job.data == nullptr && job.count != 0) {
    return fail(Code::kInvalid, "apply: %llu elements and a null pointer",
                static_cast<unsigned long long>(job.count));
  }
  if (job.out == nullptr) return Code::kOk;
  const bool widens = job.stored == ElementType::kFp16 || job.stored == ElementType::kBf16;
  if (!widens || job.out_type != ElementType::kFp32) {
    return fail(Code::kUnsupported,
                "apply: out of place from element type %u to %u; allowed: 1 (fp16) or 2 (bf16) to 0 (fp32)",
                static_cast<unsigned>(job.stored), static_cast<unsigned>(job.out_type));
  }
  return Code::kOk;
}

Code check_update(const ObserveUpdate& job) noexcept {
  if (!is_multiplied(job.stored)) return unsupported_type("observe_update", job.stored);
  if (job.total == nullptr) return fail(Code::kInvalid, "observe_update: total is null");
  if (job.count == 0 || (job.before != nullptr && job.after != nullptr && job.update != nullptr)) {
    return Code::kOk;
  }
  return fail(Code::kInvalid, "observe_update: %llu elements and a null pointer",
              static_cast<unsigned long long>(job.count));
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

}  // namespace stepgate::device::host

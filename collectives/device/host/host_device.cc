#include "collectives/device/host/host_device.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "collectives/device/host/fp_environment.h"
#include "collectives/device/host/kernels.h"
#include "collectives/device/host/publish_record.h"
#include "collectives/device/host/scan_segments.h"

namespace stepgate::device {
namespace {

constexpr std::size_t kAlignment = 256;

// The text of the calling thread's last failure.
char* error_text() noexcept {
  thread_local char text[256] = "no error";
  return text;
}

__attribute__((format(printf, 2, 3))) Code fail(Code code, const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error_text(), 256, format, arguments);
  va_end(arguments);
  return code;
}

Code unsupported_type(const char* operation, ElementType type) noexcept {
  return fail(Code::kUnsupported,
              "%s: element type %u is not supported on host memory; allowed: 0 (fp32), 1 (fp16), 2 (bf16), "
              "3 (fp64)",
              operation, static_cast<unsigned>(type));
}

Code check_scan(const Scan& job) noexcept {
  if (!host::is_host_type(job.stored)) return unsupported_type("scan", job.stored);
  if (static_cast<std::uint32_t>(job.compute) >= kElementTypeCount) {
    return fail(Code::kInvalid, "scan: compute type %u is none; allowed: 0 to %u",
                static_cast<unsigned>(job.compute), kElementTypeCount - 1);
  }
  if (job.total == nullptr && job.per_segment == nullptr && job.first_bad == nullptr) {
    return fail(Code::kInvalid, "scan: total, per_segment and first_bad are all null; give at least one");
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
  if (!host::is_host_type(job.stored)) return unsupported_type("apply", job.stored);
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

Code check_block(const char* operation, const GateBlock* g, std::uint32_t set) noexcept {
  if (g == nullptr) return fail(Code::kInvalid, "%s: the gate block is null", operation);
  if (set < kMaxSets) return Code::kOk;
  return fail(Code::kInvalid, "%s: set %u; allowed: 0 to %u", operation, set, kMaxSets - 1);
}

Code check_slots(const char* operation, const RangeSlot* slots, std::uint32_t slot_count) noexcept {
  if (slots != nullptr || slot_count == 0) return Code::kOk;
  return fail(Code::kInvalid, "%s: %u slots and a null pointer", operation, slot_count);
}

Code copy(const char* operation, void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes == 0) return Code::kOk;
  if (to == nullptr || from == nullptr) {
    return fail(Code::kInvalid, "%s: %zu bytes %s a null pointer", operation, bytes,
                to == nullptr ? "to" : "from");
  }
  std::memmove(to, from, bytes);
  return Code::kOk;
}

void keep_summary(GateBlock* g, std::uint32_t set, const double* fields) noexcept {
  double* kept = g->sets[set].summary;
  if (kept != fields) std::memcpy(kept, fields, sizeof g->sets[set].summary);
}

}  // namespace

HostDevice::HostDevice() noexcept : HostDevice(host::best_kernels()) {}

HostDevice::HostDevice(const host::Kernels& kernels) noexcept : kernels_(&kernels) {}

void* HostDevice::allocate(std::size_t bytes, Memory) noexcept {
  if (bytes > std::numeric_limits<std::size_t>::max() - kAlignment) {
    fail(Code::kOutOfMemory, "allocate: %zu bytes are more than an address space", bytes);
    return nullptr;
  }
  const std::size_t rounded = bytes == 0 ? kAlignment : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) {
    fail(Code::kOutOfMemory, "allocate: no memory for %zu bytes", bytes);
    return nullptr;
  }
  return std::memset(memory, 0, rounded);
}

void HostDevice::release(void* memory, Memory) noexcept {
  std::free(memory);
}

Code HostDevice::copy_in(Stream, void* device, const void* from, std::size_t bytes) noexcept {
  return copy("copy_in", device, from, bytes);
}

Code HostDevice::copy_out(Stream, void* to, const void* device, std::size_t bytes) noexcept {
  return copy("copy_out", to, device, bytes);
}

Code HostDevice::scan(Stream, const Scan& job) noexcept {
  if (const Code code = check_scan(job); code != Code::kOk) return code;
  const host::DefaultFpEnvironment environment;
  host::scan_segments(*kernels_, job);
  return Code::kOk;
}

Code HostDevice::apply(Stream, const Apply& job) noexcept {
  if (const Code code = check_apply(job); code != Code::kOk) return code;
  if (job.outputs->found_inf != 0.0f || job.count == 0) return Code::kOk;
  const auto index = static_cast<std::uint32_t>(job.stored);
  auto* data = static_cast<unsigned char*>(job.data);
  const host::DefaultFpEnvironment environment;
  if (job.out == nullptr) {
    kernels_->multiply[index](data, data, job.count, job.outputs->multiplier);
  } else {
    kernels_->multiply_to_fp32[index](data, static_cast<unsigned char*>(job.out), job.count,
                                      job.outputs->multiplier);
  }
  return Code::kOk;
}

Code HostDevice::begin_step(Stream, GateBlock* g) noexcept {
  if (const Code code = check_block("begin_step", g, 0); code != Code::kOk) return code;
  stepgate::begin_step(*g);
  return Code::kOk;
}

Code HostDevice::summarize(Stream, GateBlock* g, std::uint32_t set, const RangeSlot* slots,
                           std::uint32_t slot_count, double* fields) noexcept {
  if (const Code code = check_block("summarize", g, set); code != Code::kOk) return code;
  if (const Code code = check_slots("summarize", slots, slot_count); code != Code::kOk) return code;
  if (fields == nullptr) return fail(Code::kInvalid, "summarize: fields is null");
  const host::DefaultFpEnvironment environment;
  summarize_set(*g, set, slots, slot_count, fields);
  keep_summary(g, set, fields);
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

Code HostDevice::update_scale(Stream, GateBlock* g) noexcept {
  if (const Code code = check_block("update_scale", g, 0); code != Code::kOk) return code;
  const host::DefaultFpEnvironment environment;
  stepgate::update_scale(*g);
  return Code::kOk;
}

Code HostDevice::veto(Stream, GateBlock* g) noexcept {
  if (const Code code = check_block("veto", g, 0); code != Code::kOk) return code;
  g->veto = 1;
  return Code::kOk;
}

Code HostDevice::mark_applied(Stream, GateBlock* g, std::uint32_t set) noexcept {
  if (const Code code = check_block("mark_applied", g, set); code != Code::kOk) return code;
  g->sets[set].outputs.multiplier = 1;
  g->sets[set].outputs.grad_scale = 1;
  return Code::kOk;
}

Code HostDevice::publish(Stream, const GateBlock* g, std::uint32_t set, const RangeSlot* slots,
                         std::uint32_t slot_count, RingView ring, const RecordExtras& extras) noexcept {
  if (const Code code = check_block("publish", g, set); code != Code::kOk) return code;
  if (const Code code = check_slots("publish", slots, slot_count); code != Code::kOk) return code;
  if (ring.records == nullptr || ring.head == nullptr)
    return fail(Code::kInvalid, "publish: the ring is null");
  host::append_record(ring, host::gather_record(*g, set, slots, slot_count, extras));
  return Code::kOk;
}

Code HostDevice::synchronize(Stream) noexcept {
  return Code::kOk;
}

const char* HostDevice::last_error() const noexcept {
  return error_text();
}

}  // namespace stepgate::device

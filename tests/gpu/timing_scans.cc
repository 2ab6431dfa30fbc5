#include <algorithm>
#include <cstdio>

#include "tests/gpu/inputs.h"
#include "tests/gpu/timing_cases.h"
#include "tests/test_seed.h"

namespace stepgate::gpu {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::string size_text(std::size_t bytes) {
  if (bytes < kMiB) return std::to_string(bytes / 1024) + " KiB";
  return bytes >= 1024 * kMiB ? std::to_string(bytes / (1024 * kMiB)) + " GiB"
                              : std::to_string(bytes / kMiB) + " MiB";
}

// Healthy data, made once on the host and multiplied on the device.
void fill(Session& session, Buffer& data, ElementType t) {
  const std::size_t piece = std::min(data.bytes(), 64 * kMiB);
  const Bytes bytes = healthy_bytes(t, piece / element_size(t), test_seed());
  for (std::size_t at = 0; at < data.bytes(); at += piece) {
    data.put(bytes.data(), std::min(piece, data.bytes() - at), at);
  }
  session.wait();
}

std::string gigabytes(double bytes, double microseconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%.0f us, %.3f TB/s", microseconds, bytes / microseconds / 1e6);
  return text;
}

struct Goal {
  double read;
  double sum;
};
Goal goal_of(ElementType t) {
  return element_size(t) == 1 ? Goal{1.25, 0} : Goal{1.03, 1.02};
}

void time_one(Session& session, Rivals& rivals, Timer& timer, Results& results, ElementType t, Buffer& data,
              std::size_t bytes) {
  Buffer total(session, sizeof(GradStats));
  const device::Segment segment{data.as<>(), bytes / element_size(t)};
  device::Scan job{.segments = {&segment, 1}, .stored = t, .compute = t};
  job.total = total.as<GradStats>();
  if (session.device().prepare(job) != device::Code::kOk) give_up(session.device().last_error());
  std::vector<Variant> variants = {
      {"scan", [&] { return session.device().scan(session.stream(), job) == device::Code::kOk; }},
      {"read 4", [&] { return rivals.read(data.as<>(), bytes, 4); }},
      {"read 8", [&] { return rivals.read(data.as<>(), bytes, 8); }}};
  if (rivals.has_sum(t))
    variants.push_back({"sum", [&] { return rivals.sum(t, data.as<>(), segment.count); }});
  const std::vector<double> us = timer.medians(variants);
  const std::string name = std::string("scan ") + element_type_name(t) + " " + size_text(bytes);
  const double read = std::min(us[1], us[2]);
  const auto size = static_cast<double>(bytes);
  results.at_most(name + " / plain read", us[0] / read, goal_of(t).read,
                  "scan " + gigabytes(size, us[0]) + "; read " + gigabytes(size, read));
  if (us.size() > 3) {
    results.at_most(name + " / CUB sum", us[0] / us[3], goal_of(t).sum, "sum " + gigabytes(size, us[3]));
  } else if (element_size(t) != 1 && t != ElementType::kFp64) {
    results.skipped(name + " / CUB sum", "CUB's sum was not built");
  }
}

}  // namespace

void time_scans(Session& session, const Options& options, Rivals& rivals, Timer& timer, Results& results) {
  const std::vector<std::size_t> sizes =
      options.small ? std::vector<std::size_t>{kMiB / 8} : std::vector<std::size_t>{256 * kMiB, 4096 * kMiB};
  Buffer data(session, sizes.back());
  for (const ElementType t : {ElementType::kFp16, ElementType::kBf16, ElementType::kFp32,
                              ElementType::kFp8E4M3, ElementType::kFp8E5M2}) {
    fill(session, data, t);
    for (const std::size_t bytes : sizes) time_one(session, rivals, timer, results, t, data, bytes);
  }
}

void time_in_place(Session& session, const Options& options, Rivals& rivals, Timer& timer, Results& results) {
  const std::size_t bytes = options.small ? kMiB / 8 : 256 * kMiB;
  Buffer data(session, bytes), other(session, bytes), total(session, 256), scale(session, 256),
      outputs(session, 256);
  const double one = 1;
  const Outputs apply_one{.found_inf = 0, .multiplier = 1};
  scale.put(&one, sizeof one);
  outputs.put(&apply_one, sizeof apply_one);
  for (const ElementType t : {ElementType::kFp16, ElementType::kFp32}) {
    fill(session, data, t);
    const device::Segment segment{data.as<>(), bytes / element_size(t)};
    device::Scan job{.segments = {&segment, 1}, .stored = t, .compute = t, .total = total.as<GradStats>()};
    job.unscale_by = scale.as<double>();
    if (session.device().prepare(job) == device::Code::kUnsupported) job.unscale_by = nullptr;
    device::Apply apply;
    apply.data = data.as<>();
    apply.count = segment.count;
    apply.stored = t;
    apply.outputs = outputs.as<Outputs>();
    const std::vector<double> us = timer.medians(
        {{"scan", [&] { return session.device().scan(session.stream(), job) == device::Code::kOk; }},
         {"apply", [&] { return session.device().apply(session.stream(), apply) == device::Code::kOk; }},
         {"copy", [&] { return rivals.copy(other.as<>(), data.as<>(), bytes); }},
         {"driver's copy", [&] { return rivals.driver_copy(other.as<>(), data.as<>(), bytes); }}});
    const double copy = std::min(us[2], us[3]);
    const std::string type = element_type_name(t);
    const std::string note = "copy " + gigabytes(2.0 * static_cast<double>(bytes), copy);
    if (job.unscale_by != nullptr) {
      results.at_most("unscale in place with statistics " + type + " / device copy", us[0] / copy, 1.05,
                      note);
    } else {
      results.skipped("unscale in place with statistics " + type, "this build's device has none");
    }
    results.at_most("apply " + type + " / device copy", us[1] / copy, 1.05, note);
  }
}

}  // namespace stepgate::gpu

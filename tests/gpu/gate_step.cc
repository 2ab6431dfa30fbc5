#include "tests/gpu/gate_step.h"

#include <cstdio>

#include "collectives/core/scaler.h"

namespace stepgate::gpu {

using device::Memory;

namespace {

std::size_t buckets_of(const StepShape& shape) {
  return shape.given.empty() ? shape.buckets : 1;
}

std::size_t segments_of(const StepShape& shape) {
  return shape.given.empty() ? shape.segments : shape.given.size();
}

}  // namespace

GateStep::GateStep(Session& session, ElementType type, const StepShape& shape)
    : session_(session),
      type_(type),
      data_(std::make_unique<Buffer>(
          session, shape.given.empty() ? shape.buckets * shape.elements * element_size(type) : 256)),
      block_(session, sizeof(GateBlock)),
      slots_(session, sizeof(RangeSlot) * buckets_of(shape)),
      fields_(session, sizeof(double) * kSummaryFields),
      per_segment_(session, sizeof(GradStats) * segments_of(shape) * buckets_of(shape)),
      ring_(session, sizeof(StepRecord) * kRingRecords, Memory::kMapped),
      head_(session, sizeof(std::uint64_t), Memory::kMapped),
      table_(session, 2 * sizeof(RangeSlot) * buckets_of(shape), Memory::kMapped),
      stamps_(session, 2 * sizeof(std::uint64_t), Memory::kMapped),
      begun_(session, sizeof(GateBlock), Memory::kMapped),
      finished_(session, sizeof(GateBlock), Memory::kMapped) {
  if (!shape.given.empty()) buckets_.push_back(shape.given);
  const std::uint64_t each = shape.elements / segments_of(shape);
  for (std::size_t b = 0; shape.given.empty() && b < shape.buckets; ++b) {
    std::vector<device::Segment> segments;
    for (std::size_t i = 0; i < shape.segments; ++i) {
      const std::uint64_t first = b * shape.elements + i * each;
      const std::uint64_t count = i + 1 == shape.segments ? shape.elements - i * each : each;
      segments.push_back({gradients() + first * element_size(type), count});
    }
    buckets_.push_back(std::move(segments));
  }
  GateBlock g{};
  g.params = default_params(ScalerRule::kTorch);
  g.scaler = initial_state(g.params);
  g.policy.unscale = UnscaleMode::kApply;
  g.policy.max_norm = 1.0;
  block_.put(&g, sizeof g);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    RangeSlot s;
    s.largest_storable = largest_finite(type);
    slots_.put(&s, sizeof s, i * sizeof s);
    for (const bool local : {false, true}) {
      if (!done(session.device().prepare(scan_of(i, local)))) give_up(session.device().last_error());
    }
  }
}

device::Scan GateStep::scan_of(std::size_t bucket, bool local) const {
  RangeSlot* slot = slots_.as<RangeSlot>() + bucket;
  device::Scan job{.segments = buckets_[bucket], .stored = type_, .compute = type_};
  job.total = local ? &slot->local : &slot->reduced;
  job.per_segment = local ? nullptr : per_segment_.as<GradStats>() + bucket * buckets_[bucket].size();
  if (local) job.first_bad = &slot->first_bad_segment;
  job.epoch = &block_.as<GateBlock>()->step;
  job.stamp = local ? &slot->local_step : &slot->reduced_step;
  return job;
}

bool GateStep::begin() {
  const device::BeginStep job{.g = block_.as<GateBlock>(),
                              .slots = slots_.as<RangeSlot>(),
                              .slot_count = static_cast<std::uint32_t>(buckets_.size()),
                              .mirror = begun_.as<GateBlock>()};
  return done(session_.device().begin_step(session_.stream(), job));
}

bool GateStep::local_scans() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (!done(session_.device().scan(session_.stream(), scan_of(i, true)))) return false;
  }
  return true;
}

bool GateStep::reduced_scans() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (!done(session_.device().scan(session_.stream(), scan_of(i, false)))) return false;
  }
  return true;
}

bool GateStep::all_scans() {
  std::vector<device::Scan> jobs;
  for (std::size_t i = 0; i < buckets_.size(); ++i) jobs.push_back(scan_of(i, false));
  return done(session_.device().scan_all(session_.stream(), jobs));
}

bool GateStep::summarize() {
  const device::Summarize job{.g = block_.as<GateBlock>(),
                              .slots = slots_.as<RangeSlot>(),
                              .slot_count = static_cast<std::uint32_t>(buckets_.size()),
                              .fields = fields_.as<double>(),
                              .attributing = true};
  return done(session_.device().summarize(session_.stream(), job));
}

bool GateStep::finish() {
  RangeSlot* table = table_.as<RangeSlot>();
  const device::FinishStep job{.g = block_.as<GateBlock>(),
                               .decide_set = 0,
                               .fields = fields_.as<double>(),
                               .publish_sets = 1,
                               .slots = slots_.as<RangeSlot>(),
                               .slot_count = static_cast<std::uint32_t>(buckets_.size()),
                               .ring = {ring_.as<StepRecord>(), head_.as<std::uint64_t>()},
                               .extras = {},
                               .table = {{table, table + buckets_.size()}, stamps_.as<std::uint64_t>()},
                               .mirror = finished_.as<GateBlock>()};
  return done(session_.device().finish_step(session_.stream(), job));
}

bool GateStep::optimizer() {
  std::vector<device::Apply> jobs;
  for (const std::vector<device::Segment>& bucket : buckets_) {
    for (const device::Segment& segment : bucket) {
      device::Apply job;
      job.data = const_cast<void*>(segment.data);
      job.count = segment.count;
      job.stored = type_;
      job.outputs = &block_.as<GateBlock>()->sets[0].outputs;
      jobs.push_back(job);
    }
  }
  return done(session_.device().apply_all(session_.stream(), jobs));
}

}  // namespace stepgate::gpu

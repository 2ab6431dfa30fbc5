#include "tests/collectives/device_cuda_driver/device_job.h"

#include <cstring>
#include <random>

namespace stepgate::test {

using device::Code;
using device::Device;
using device::Memory;

Held::Held(Device& device, std::size_t bytes, Memory kind)
    : device_(device), kind_(kind), memory_(device.allocate(bytes, kind)) {}

Held::Held(Held&& o) noexcept : device_(o.device_), kind_(o.kind_), memory_(o.memory_) {
  o.memory_ = nullptr;
}

Held::~Held() {
  if (memory_ != nullptr) device_.release(memory_, kind_);
}

namespace {

// Bits of a value around 2^-3, of a random sign.
std::uint64_t healthy_bits(ElementType t, std::mt19937_64& random) {
  const std::uint64_t r = random();
  if (r % 29 == 0) return 0;
  switch (t) {
    case ElementType::kFp32: return (r & 0x80000000u) | (0x3d000000u + (r >> 40) % 0x2000000u);
    case ElementType::kFp16: return (r & 0x8000u) | (0x2800u + (r >> 40) % 0x1000u);
    case ElementType::kBf16: return (r & 0x8000u) | (0x3d00u + (r >> 40) % 0x200u);
    default: return (r & (std::uint64_t{1} << 63)) | (0x3fb0000000000000u + (r >> 12) % 0x40000000000000u);
  }
}

std::uint64_t spoiled_bits(ElementType t, Spoil spoil) {
  const std::uint64_t nan = spoil == Spoil::kNan;
  switch (t) {
    case ElementType::kFp32: return 0x7f800000u + nan;
    case ElementType::kFp16: return 0x7c00u + nan;
    case ElementType::kBf16: return 0x7f80u + nan;
    default: return 0x7ff0000000000000u + nan;
  }
}

RangeData random_range(ElementType t, std::vector<std::uint64_t> counts, std::mt19937_64& random) {
  RangeData r;
  r.type = t;
  r.counts = std::move(counts);
  const std::size_t size = element_size(t);
  for (const std::uint64_t n : r.counts) {
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t bits = healthy_bits(t, random);
      const auto* p = reinterpret_cast<const unsigned char*>(&bits);
      r.bytes.insert(r.bytes.end(), p, p + size);
    }
  }
  return r;
}

std::vector<std::uint64_t> many(std::size_t n, std::mt19937_64& random) {
  std::vector<std::uint64_t> counts(n);
  for (std::uint64_t& c : counts) c = random() % 40;
  return counts;
}

}  // namespace

JobPlan random_plan(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  JobPlan p;
#if defined(__SANITIZE_THREAD__)  // a block of 256 fibers takes some 100 ms there
  p.ranges.push_back(random_range(ElementType::kBf16, {600, 3, 0}, random));
  p.ranges.push_back(random_range(ElementType::kFp32, {1, 500}, random));
  p.steps = {Spoil::kNothing, Spoil::kInf};
  return p;
#endif
  p.ranges.push_back(random_range(ElementType::kBf16, {20001, 3, 0, 8192}, random));
  p.ranges.push_back(random_range(ElementType::kFp32, {1, 9000}, random));
  p.ranges.push_back(random_range(ElementType::kFp16, many(230, random), random));  // two launches
  p.ranges.push_back(random_range(ElementType::kFp64, {777}, random));
  p.steps = {Spoil::kNothing, Spoil::kInf, Spoil::kNan, Spoil::kVeto, Spoil::kNothing};
  return p;
}

DeviceJob::DeviceJob(Device& device, device::Stream s, const JobPlan& plan)
    : device_(device),
      stream_(s),
      plan_(plan),
      block_(device, sizeof(GateBlock), Memory::kDevice),
      slots_(device, sizeof(RangeSlot) * plan.ranges.size(), Memory::kDevice),
      fields_(device, sizeof(double) * kSummaryFields, Memory::kDevice),
      ring_(device, sizeof(StepRecord) * kRingRecords, Memory::kMapped),
      head_(device, sizeof(std::uint64_t), Memory::kMapped),
      mirror_(device, sizeof(GateBlock), Memory::kMapped),
      slots_mirror_(device, sizeof(RangeSlot) * plan.ranges.size(), Memory::kMapped),
      begun_(device, sizeof(GateBlock), Memory::kMapped),
      finished_(device, sizeof(GateBlock), Memory::kMapped),
      table_(device, 2 * sizeof(RangeSlot) * plan.ranges.size(), Memory::kMapped),
      stamps_(device, 2 * sizeof(std::uint64_t), Memory::kMapped),
      absorbed_(device, sizeof(device::UpdateStats), Memory::kDevice),
      absorbed_mirror_(device, sizeof(device::UpdateStats), Memory::kMapped),
      mark_(device) {
  for (const RangeData& r : plan.ranges) {
    Range made{{device, r.bytes.size(), Memory::kDevice},
               {device, sizeof(GradStats) * r.counts.size(), Memory::kMapped},
               {device, 2 * r.bytes.size(), Memory::kDevice},
               {}};
    const auto* at = made.data.as<unsigned char>();
    usable_ = usable_ && at != nullptr && made.per_segment.as<void>() && made.widened.as<void>();
    for (const std::uint64_t n : r.counts) {
      made.segments.push_back({at, n});
      if (at != nullptr) at += n * element_size(r.type);
    }
    ranges_.push_back(std::move(made));
  }
  for (const Held* h : {&block_, &slots_, &fields_, &ring_, &head_, &mirror_, &slots_mirror_, &begun_,
                        &finished_, &table_, &stamps_, &absorbed_, &absorbed_mirror_}) {
    usable_ = usable_ && h->as<void>() != nullptr;
  }
  usable_ = usable_ && mark_.get() != nullptr;
}

bool DeviceJob::ok(Code code, const char* what, std::string* error) const {
  if (code == Code::kOk) return true;
  *error = std::string(what) + ": " + device_.last_error();
  return false;
}

bool DeviceJob::start(std::string* error) {
  GateBlock g{};
  g.params = default_params(ScalerRule::kTorch);
  g.scaler = initial_state(g.params);
  g.policy.unscale = UnscaleMode::kApply;
  g.policy.max_norm = 1.0;
  g.rank = plan_.rank;
  bool good = ok(device_.copy_in(stream_, block_.as<void>(), &g, sizeof g), "block", error);
  for (std::size_t i = 0; good && i < plan_.ranges.size(); ++i) {
    RangeSlot s;
    s.largest_storable = largest_finite(plan_.ranges[i].type);
    good = ok(device_.copy_in(stream_, slots_.as<RangeSlot>() + i, &s, sizeof s), "slot", error);
    for (const bool local : {true, false}) {
      if (plan_.prepare) good = good && ok(device_.prepare(scan_of(i, local)), "prepare", error);
    }
  }
  for (const Range& r : ranges_) {
    const bool reached = device_.reaches(r.data.as<void>());
    good = good && ok(reached ? Code::kOk : Code::kInvalid, "reaches", error);
  }
  return good && ok(device_.synchronize(stream_), "synchronize", error);
}

device::Scan DeviceJob::scan_of(std::size_t range, bool local) const {
  RangeSlot* slot = slots_.as<RangeSlot>() + range;
  device::Scan job;
  job.segments = ranges_[range].segments;
  job.stored = plan_.ranges[range].type;
  job.compute = plan_.ranges[range].type;
  job.total = local ? &slot->local : &slot->reduced;
  if (local) job.per_segment = ranges_[range].per_segment.as<GradStats>();
  if (local) job.first_bad = &slot->first_bad_segment;
  job.epoch = &block_.as<GateBlock>()->step;
  job.stamp = local ? &slot->local_step : &slot->reduced_step;
  job.unless_stamped = range % 2 == 0;  // no step's scan has run before
  if (local && plan_.in_place) job.unscale_by = &block_.as<GateBlock>()->latched_scale;
  return job;
}

bool DeviceJob::fill(std::size_t range, Spoil spoil, std::string* error) {
  std::vector<unsigned char> bytes = plan_.ranges[range].bytes;
  const std::size_t size = element_size(plan_.ranges[range].type);
  if (spoil == Spoil::kInf || spoil == Spoil::kNan) {
    const std::uint64_t bits = spoiled_bits(plan_.ranges[range].type, spoil);
    std::memcpy(bytes.data() + bytes.size() / size / 2 * size, &bits, size);
  }
  return ok(device_.copy_in(stream_, ranges_[range].data.as<void>(), bytes.data(), bytes.size()), "fill",
            error) &&
         ok(device_.synchronize(stream_), "fill", error);
}

bool DeviceJob::scans(std::string* error) {
  std::vector<device::Scan> reduced;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    if (!ok(device_.scan(stream_, scan_of(i, true)), "local scan", error)) return false;
    reduced.push_back(scan_of(i, false));
  }
  return ok(device_.scan_all(stream_, reduced), "reduced scans", error);
}

bool DeviceJob::decides(std::string* error) {
  GateBlock* g = block_.as<GateBlock>();
  RangeSlot* slots = slots_.as<RangeSlot>();
  RangeSlot* table = table_.as<RangeSlot>();
  const auto count = static_cast<std::uint32_t>(ranges_.size());
  const device::Summarize summarize{
      .g = g, .slots = slots, .slot_count = count, .fields = fields_.as<double>(), .attributing = true};
  const device::FinishStep finish{.g = g,
                                  .decide_set = 0,
                                  .fields = fields_.as<double>(),
                                  .publish_sets = 1,
                                  .slots = slots,
                                  .slot_count = count,
                                  .ring = {ring_.as<StepRecord>(), head_.as<std::uint64_t>()},
                                  .extras = {1, 2, 3},
                                  .table = {{table, table + count}, stamps_.as<std::uint64_t>()},
                                  .mirror = finished_.as<GateBlock>()};
  return ok(device_.summarize(stream_, summarize), "summarize", error) &&
         ok(device_.finish_step(stream_, finish), "finish_step", error);
}

bool DeviceJob::applies(std::string* error) {
  GateBlock* g = block_.as<GateBlock>();
  std::vector<device::Apply> in_place;
  for (std::size_t i = 0; plan_.apply && i < ranges_.size(); ++i) {
    const ElementType t = plan_.ranges[i].type;
    device::Apply job;
    job.data = ranges_[i].data.as<void>();
    job.count = plan_.ranges[i].bytes.size() / element_size(t);
    job.stored = t;
    job.outputs = &g->sets[0].outputs;
    in_place.push_back(job);
    if (t != ElementType::kFp16 && t != ElementType::kBf16) continue;
    job.out = ranges_[i].widened.as<void>();
    if (!ok(device_.apply(stream_, job), "widen", error)) return false;
  }
  return ok(device_.apply_all(stream_, in_place), "apply", error) &&
         ok(device_.mark_applied(stream_, g, 0), "mark_applied", error);
}

// A made-up update: the first range's bytes are before, after and update.
bool DeviceJob::observes(std::string* error) {
  const ElementType t = plan_.ranges[0].type;
  const void* data = ranges_[0].data.as<void>();
  return ok(device_.observe_update(stream_, {data, data, data, plan_.ranges[0].bytes.size() / element_size(t),
                                             t, absorbed_.as<device::UpdateStats>()}),
            "observe_update", error);
}

bool DeviceJob::mirrors(std::string* error) {
  return ok(device_.copy_out(stream_, mirror_.as<void>(), block_.as<void>(), sizeof(GateBlock)), "mirror",
            error) &&
         ok(device_.copy_out(stream_, slots_mirror_.as<void>(), slots_.as<void>(),
                             sizeof(RangeSlot) * ranges_.size()),
            "slots mirror", error) &&
         ok(device_.copy_out(stream_, absorbed_mirror_.as<void>(), absorbed_.as<void>(),
                             sizeof(device::UpdateStats)),
            "absorbed mirror", error);
}

bool DeviceJob::enqueue_step(Spoil spoil, std::string* error) {
  GateBlock* g = block_.as<GateBlock>();
  const device::BeginStep begin{.g = g,
                                .slots = slots_.as<RangeSlot>(),
                                .slot_count = static_cast<std::uint32_t>(ranges_.size()),
                                .mirror = begun_.as<GateBlock>()};
  const device::CaptureState state = device_.capture_state(stream_);
  const bool known = state == device::CaptureState::kNone || state == device::CaptureState::kCapturing;
  return ok(known ? Code::kOk : Code::kDriver, "capture_state", error) &&
         ok(device_.begin_step(stream_, begin), "begin_step", error) && scans(error) &&
         ok(device_.record(stream_, mark_.get()), "record", error) &&
         ok(device_.wait(stream_, mark_.get()), "wait", error) &&
         (spoil != Spoil::kVeto || ok(device_.veto(stream_, g), "veto", error)) && decides(error) &&
         applies(error) && observes(error) && mirrors(error);
}

bool DeviceJob::collect(JobTrace* trace, std::string* error) {
  if (!ok(device_.synchronize(stream_), "synchronize", error)) return false;
  StepTrace t;
  t.block = *mirror_.as<GateBlock>();
  const auto* slots = slots_mirror_.as<RangeSlot>();
  t.slots.assign(slots, slots + ranges_.size());
  t.begun = *begun_.as<GateBlock>();
  t.finished = *finished_.as<GateBlock>();
  const std::size_t turn = t.block.step % 2;
  const auto* table = table_.as<RangeSlot>() + turn * ranges_.size();
  t.published.assign(table, table + ranges_.size());
  t.stamp = stamps_.as<std::uint64_t>()[turn];
  t.absorbed = *absorbed_mirror_.as<device::UpdateStats>();
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const auto* each = ranges_[i].per_segment.as<GradStats>();
    t.per_segment.insert(t.per_segment.end(), each, each + ranges_[i].segments.size());
    const std::size_t bytes = plan_.ranges[i].bytes.size();
    const std::size_t at = t.gradients.size();
    t.gradients.resize(at + bytes);
    t.widened.resize(2 * (at + bytes));
    if (!ok(device_.copy_out(stream_, t.gradients.data() + at, ranges_[i].data.as<void>(), bytes), "data",
            error) ||
        !ok(device_.copy_out(stream_, t.widened.data() + 2 * at, ranges_[i].widened.as<void>(), 2 * bytes),
            "data", error)) {
      return false;
    }
  }
  trace->steps.push_back(std::move(t));
  trace->head = *head_.as<std::uint64_t>();
  trace->records.assign(ring_.as<StepRecord>(), ring_.as<StepRecord>() + trace->head);
  return ok(device_.synchronize(stream_), "synchronize", error);
}

JobTrace DeviceJob::run(Device& device, device::Stream s, const JobPlan& plan, std::string* error) {
  JobTrace trace;
  DeviceJob job(device, s, plan);
  if (!job.usable()) *error = std::string("allocate: ") + device.last_error();
  if (!job.usable() || !job.start(error)) return trace;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    for (std::size_t r = 0; r < plan.ranges.size(); ++r) {
      const Spoil spoil = r == i % plan.ranges.size() ? plan.steps[i] : Spoil::kNothing;
      if (!job.fill(r, spoil, error)) return trace;
    }
    if (!job.enqueue_step(plan.steps[i], error) || !job.collect(&trace, error)) return trace;
  }
  return trace;
}

namespace {

bool same(const void* a, const void* b, std::size_t bytes) {
  return std::memcmp(a, b, bytes) == 0;
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || same(a.data(), b.data(), a.size() * sizeof(T)));
}

}  // namespace

std::string difference(const JobTrace& got, const JobTrace& want) {
  if (got.steps.size() != want.steps.size()) return "number of steps";
  for (std::size_t i = 0; i < got.steps.size(); ++i) {
    const StepTrace& a = got.steps[i];
    const StepTrace& b = want.steps[i];
    const std::string step = "step " + std::to_string(i + 1) + ": ";
    if (!same(a.slots, b.slots)) return step + "slots";
    if (!same(a.per_segment, b.per_segment)) return step + "statistics per segment";
    if (!same(&a.block, &b.block, sizeof(GateBlock))) return step + "block";
    if (!same(&a.begun, &b.begun, sizeof(GateBlock))) return step + "block at its begin";
    if (!same(&a.finished, &b.finished, sizeof(GateBlock))) return step + "block at its end";
    if (a.stamp != b.stamp || a.stamp != i + 1) return step + "stamp of the table";
    if (!same(a.published, b.published)) return step + "table";
    if (!same(a.gradients, b.gradients)) return step + "gradients";
    if (!same(a.widened, b.widened)) return step + "widened gradients";
    if (!same(&a.absorbed, &b.absorbed, sizeof a.absorbed)) return step + "absorbed updates";
  }
  if (got.head != want.head) return "head of the ring";
  return same(got.records, want.records) ? "" : "records";
}

}  // namespace stepgate::test

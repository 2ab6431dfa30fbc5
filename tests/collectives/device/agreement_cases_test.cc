// The kinds norm, unscale and stats of tests/vectors/agreement_cases.json, as far as a Device alone
// shows them: every rank has its own block; the reductions between ranks are plain loops here.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "collectives/device/host/host_device.h"
#include "tests/collectives/device/scan_oracle.h"

namespace stepgate::test {
namespace {

using device::Code;
using device::HostDevice;
using device::Segment;
using nlohmann::json;

std::vector<json> cases_of(const std::string& kind) {
  std::ifstream file("tests/vectors/agreement_cases.json");
  const json document = json::parse(file);
  std::vector<json> found;
  for (const json& c : document.at("cases")) {
    if (c.at("kind") == kind) found.push_back(c);
  }
  return found;
}

ElementType type_named(const std::string& name) {
  for (const ElementType t : kStoredTypes) {
    if (type_label(t) == name) return t;
  }
  throw std::invalid_argument("no element type " + name);
}

double number(const json& j) {
  if (j.is_number()) return j.get<double>();
  const std::string text = j;
  if (text == "nan") return std::nan("");
  return text == "inf" ? HUGE_VAL : -HUGE_VAL;
}

std::vector<double> numbers(const json& list) {
  if (list.is_object())
    return std::vector<double>(list.at("count").get<std::size_t>(), number(list.at("repeat")));
  std::vector<double> values;
  for (const json& j : list) values.push_back(number(j));
  return values;
}

struct Rank {
  std::unique_ptr<GateBlock> block = std::make_unique<GateBlock>();
  RangeSlot slot;
  double fields[kSummaryFields] = {};
  std::vector<unsigned char> gradient;  // what the job's reduction left
  std::size_t count = 0;
};

// N ranks on host devices, and the case that they run.
class Ranks {
 public:
  explicit Ranks(const json& c)
      : case_(c),
        type_(type_named(c.value("dtype", "fp32"))),
        compute_(type_named(c.value("compute_type", "fp16"))),
        scale_(c.value("scale", 1.0)) {
    for (const auto& list : inputs()) add_rank(list);
  }

  GradStats scan(const Rank& r) {
    const Segment segment{r.gradient.data(), r.count};
    GradStats stats;
    EXPECT_EQ(host_.scan(nullptr,
                         {.segments = {&segment, 1}, .stored = type_, .compute = compute_, .total = &stats}),
              Code::kOk);
    return stats;
  }

  void scan_local() {
    for (Rank& r : ranks_) r.slot.local = scan(r);
  }

  // SUM in the stored type, as a collective library would do it.
  void reduce_sum() {
    if (ranks_.size() == 1) return;
    Elements sum = unpack(type_, ranks_[0].gradient.data(), ranks_[0].count);
    for (std::size_t i = 1; i < ranks_.size(); ++i) {
      const Elements other = unpack(type_, ranks_[i].gradient.data(), ranks_[i].count);
      for (std::size_t k = 0; k < sum.size(); ++k) {
        sum[k] = encode(type_, decode(type_, sum[k]) + decode(type_, other[k]));
      }
    }
    for (Rank& r : ranks_) r.gradient = pack(type_, sum);
  }

  void decide() {
    double sums[kSummaryFields] = {};
    for (Rank& r : ranks_) {
      r.slot.reduced = scan(r);
      EXPECT_EQ(host_.begin_step(nullptr, {.g = r.block.get()}), Code::kOk);
      const device::Summarize job{.g = r.block.get(),
                                  .slots = &r.slot,
                                  .slot_count = 1,
                                  .fields = r.fields,
                                  .attributing = r.block->attributing != 0};
      EXPECT_EQ(host_.summarize(nullptr, job), Code::kOk);
      for (int i = 0; i < kSummaryFields; ++i) sums[i] += r.fields[i];
    }
    for (Rank& r : ranks_) EXPECT_EQ(host_.decide(nullptr, r.block.get(), 0, sums), Code::kOk);
  }

  void apply() {
    for (Rank& r : ranks_) {
      EXPECT_EQ(host_.apply(nullptr, {.data = r.gradient.data(),
                                      .count = r.count,
                                      .stored = type_,
                                      .outputs = &r.block->sets[0].outputs}),
                Code::kOk);
    }
  }

  std::vector<float> unscaled(Rank& r) {
    std::vector<float> out(r.count);
    EXPECT_EQ(host_.apply(nullptr, {.data = r.gradient.data(),
                                    .count = r.count,
                                    .stored = type_,
                                    .outputs = &r.block->sets[0].outputs,
                                    .out = out.data()}),
              Code::kOk);
    return out;
  }

  std::vector<double> values(const Rank& r) const {
    std::vector<double> v;
    for (const std::uint64_t bits : unpack(type_, r.gradient.data(), r.count))
      v.push_back(decode(type_, bits));
    return v;
  }

  std::vector<Rank>& all() { return ranks_; }

 private:
  std::vector<std::vector<double>> inputs() const {
    std::vector<std::vector<double>> lists;
    if (case_.contains("grads_before_cast")) {
      std::vector<double> scaled;
      for (const double x : numbers(case_.at("grads_before_cast"))) scaled.push_back(x * scale_);
      return {scaled};
    }
    for (const json& list : case_.at("grads")) lists.push_back(numbers(list));
    return lists;
  }

  void add_rank(const std::vector<double>& list) {
    Rank r;
    r.count = list.size();
    r.gradient = pack(type_, encode_all(type_, list));
    r.slot.largest_storable = largest_finite(type_);
    r.block->params = default_params(ScalerRule::kTorch);
    r.block->params.initial_scale = scale_;
    r.block->scaler = initial_state(r.block->params);
    r.block->policy.max_norm = case_.value("max_norm", 0.0);
    r.block->rank = static_cast<std::uint32_t>(ranks_.size());
    r.block->attributing = 1;
    ranks_.push_back(std::move(r));
    for (Rank& each : ranks_) each.block->policy.world = static_cast<std::uint32_t>(ranks_.size());
  }

  json case_;
  ElementType type_;
  ElementType compute_;
  double scale_;
  HostDevice host_;
  std::vector<Rank> ranks_;
};

// Every wanted figure is checked: a new name in the file fails here instead of passing unseen.
void expect_known(const json& want, const std::set<std::string>& known) {
  for (const auto& [name, value] : want.items())
    EXPECT_TRUE(known.count(name) != 0) << "not checked: " << name;
}

void expect_close(double got, double want) {
  EXPECT_LE(std::fabs(got - want), 1e-6 * std::fabs(want)) << got << ' ' << want;
}

void check_norm(const json& c) {
  const json& want = c.at("want");
  expect_known(want, {"norm", "skip", "each_after_clip", "grads_after"});
  Ranks ranks(c);
  ranks.decide();
  ranks.apply();
  for (std::size_t i = 0; i < ranks.all().size(); ++i) {
    Rank& r = ranks.all()[i];
    const Decision& d = r.block->sets[0].decision;
    if (want.contains("skip")) {
      EXPECT_EQ(d.skip != 0, want["skip"][i].get<bool>());
    }
    if (want.contains("norm")) {
      EXPECT_EQ(d.skip, 0u);
      expect_close(d.norm, want["norm"]);
    }
    for (const double x : ranks.values(r)) {
      if (want.contains("each_after_clip"))
        expect_close(x, static_cast<float>(want["each_after_clip"].get<double>()));
    }
    if (want.contains("grads_after")) {
      EXPECT_EQ(ranks.values(r), numbers(want["grads_after"]));
    }
  }
}

void check_stats(const json& c) {
  const json& want = c.at("want");
  expect_known(want, {"zeros", "subnormals", "overranges", "local_infs", "reduced_infs", "reduced_nans",
                      "skip", "blamed", "offending_rank", "note"});
  ASSERT_EQ(c.value("op", "sum"), "sum");
  Ranks ranks(c);
  ranks.scan_local();
  ranks.reduce_sum();
  ranks.decide();
  for (std::size_t i = 0; i < ranks.all().size(); ++i) {
    const Rank& r = ranks.all()[i];
    const Decision& d = r.block->sets[0].decision;
    const auto count = [&want](const char* name, std::uint64_t got) {
      const std::uint64_t wanted = want.value(name, got);
      EXPECT_EQ(got, wanted) << name;
    };
    count("zeros", r.slot.reduced.zeros);
    count("subnormals", r.slot.reduced.subnormals);
    count("overranges", r.slot.reduced.overranges);
    count("reduced_infs", r.slot.reduced.inf);
    count("reduced_nans", r.slot.reduced.nan);
    if (want.contains("local_infs")) {
      EXPECT_EQ(r.slot.local.inf, want["local_infs"][i].get<std::uint64_t>());
    }
    if (want.contains("skip")) {
      EXPECT_EQ(d.skip != 0, want["skip"][i].get<bool>());
    }
    EXPECT_EQ(d.offender, want.value("offending_rank", d.offender));
    if (want.value("blamed", "") == "reduction") {
      EXPECT_EQ(d.offender, kOffenderReduction);
    }
  }
}

void check_unscale(const json& c) {
  expect_known(c.at("want"), {"unscaled_fp32"});
  Ranks ranks(c);
  ranks.decide();
  const std::vector<double> want = numbers(c.at("want").at("unscaled_fp32"));
  for (Rank& r : ranks.all()) {
    const std::vector<float> got = ranks.unscaled(r);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i], static_cast<float>(want[i]));
  }
}

void run_cases(const std::string& kind, std::size_t least, void (*check)(const json&)) {
  const std::vector<json> cases = cases_of(kind);
  EXPECT_GE(cases.size(), least);
  for (const json& c : cases) {
    SCOPED_TRACE(c.at("name").get<std::string>());
    check(c);
  }
}

TEST(DeviceAgreementCases, Norm) {
  run_cases("norm", 7, check_norm);
}
TEST(DeviceAgreementCases, Stats) {
  run_cases("stats", 5, check_stats);
}
TEST(DeviceAgreementCases, Unscale) {
  run_cases("unscale", 1, check_unscale);
}

}  // namespace
}  // namespace stepgate::test

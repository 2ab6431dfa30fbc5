// Detectors as tables: what goes in, which findings come out.
#include "metrics/detectors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/metrics/fake_source.h"

namespace stepgate::metrics::test {
namespace {

// Steps as letters: '.' applied, 'n' nan, 'i' inf, 'v' veto, 'd' applied but diverged, 'm' applied at
// the minimum scale. The answer: kinds found, as "kind@step".
std::string findings(const std::string& pattern, AnomalyThresholds t = {}) {
  Detectors detectors(t, default_params(ScalerRule::kStepgate));
  std::vector<Anomaly> out;
  std::uint64_t step = 0;
  for (const char c : pattern) {
    ++step;
    StepRecord r = applied(step);
    if (c == 'n') r = skipped(step, Reason::kNan);
    if (c == 'i') r = skipped(step, Reason::kInf);
    if (c == 'v') r = skipped(step, Reason::kVeto);
    if (c == 'd') r.decision.diverged = 1;
    if (c == 'm') r = applied(step, 1, 1.0);
    detectors.observe(r, out);
  }
  std::string text;
  for (const Anomaly& a : out) {
    text += (text.empty() ? "" : " ") + std::string(kAnomalyKindNames[static_cast<std::size_t>(a.kind)]) +
            "@" + std::to_string(a.step);
  }
  return text;
}

AnomalyThresholds small() {
  AnomalyThresholds t;
  t.skips_in_row = 2;
  t.floor_window = 4;
  return t;
}

TEST(Detectors, StepsAsATable) {
  struct Case {
    const char* what;
    const char* steps;
    const char* found;
  };
  const Case cases[] = {
      {"a healthy run is quiet", "........", ""},
      {"each step with a NaN once", ".n.n.", "nan@2 nan@4"},
      {"each step with an inf once", ".i.i.", "overflow@2 overflow@4"},
      {"a veto is no anomaly of its own", ".v.v.", ""},
      {"as many skips as allowed", "vv.vv.", ""},
      {"one more, said once while it lasts", "vvv.", "consecutive_skips@3"},
      {"again after the run ended", "vvv.vvv.", "consecutive_skips@3 consecutive_skips@7"},
      {"a window without an applied step, once", "vvvvvv.", "consecutive_skips@3 scale_floor@4"},
      {"a window is counted from the last applied step", "vv.vv.vv.", ""},
      {"the scale at its minimum, once while it stays", "..mmm", "scale_floor@3"},
      {"again when it comes back to it", "m.m", "scale_floor@1 scale_floor@3"},
      {"divergence in each step", "d.d", "divergence@1 divergence@3"},
  };
  for (const Case& c : cases) EXPECT_EQ(findings(c.steps, small()), c.found) << c.what << ": " << c.steps;
}

TEST(Detectors, DefaultsAllowTenSkipsAndNameTheRankOfTheEleventh) {
  EXPECT_EQ(findings(std::string(10, 'v')), "");
  EXPECT_EQ(findings(std::string(11, 'v')), "consecutive_skips@11");
}

TEST(Detectors, FindingsNameRankRangeAndValue) {
  std::vector<Anomaly> out;
  NonfiniteDetector nan(AnomalyKind::kNan);
  StepRecord r = skipped(5, Reason::kNan, 2);
  r.sum_nan = 7;
  nan.observe(r, out);
  nan.observe(with_nonfinite(range(6, 9, ScanPhase::kReduced, 100), 0, 3), out);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].rank, 2);
  EXPECT_EQ(out[0].range, kNoRange);
  EXPECT_EQ(out[0].value, 7);
  EXPECT_EQ(out[1].rank, kOffenderUnknown);
  EXPECT_EQ(out[1].range, 9u);
  EXPECT_EQ(out[1].value, 3);
}

TEST(Detectors, OneStepIsReportedOnceWhoeverBringsIt) {
  std::vector<Anomaly> out;
  NonfiniteDetector overflow(AnomalyKind::kOverflow);
  overflow.observe(skipped(5, Reason::kInf), out);
  overflow.observe(with_nonfinite(range(5, 0, ScanPhase::kReduced, 100), 1, 0), out);
  overflow.observe(with_nonfinite(range(5, 1, ScanPhase::kReduced, 100), 1, 0), out);
  EXPECT_EQ(out.size(), 1u);
}

TEST(Detectors, AnInfBeforeTheReductionAloneIsNoFinding) {
  std::vector<Anomaly> out;
  NonfiniteDetector overflow(AnomalyKind::kOverflow);
  overflow.observe(with_nonfinite(range(5, 0, ScanPhase::kLocal, 100), 1, 0), out);
  EXPECT_TRUE(out.empty());
}

TEST(Detectors, SkipRunsAreCountedPerSet) {
  ConsecutiveSkipsDetector skips(small());
  std::vector<Anomaly> out;
  for (std::uint64_t step = 1; step <= 4; ++step) {
    StepRecord good = applied(step);
    StepRecord bad = skipped(step, Reason::kInf);
    bad.set = 1;
    skips.observe(good, out);
    skips.observe(bad, out);
  }
  EXPECT_EQ(skips.longest(), 4u);
  EXPECT_EQ(out.size(), 1u);
}

TEST(Detectors, DivergenceNamesTheOddRankWhereItIsKnown) {
  std::vector<Anomaly> out;
  DivergenceDetector divergence;
  StepRecord r = applied(1);
  r.decision.diverged = 1;
  divergence.observe(r, out);
  r = applied(2);
  r.decision.diverged = 1;
  r.decision.odd_rank = 3;
  divergence.observe(r, out);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].rank, kOffenderUnknown);
  EXPECT_EQ(out[1].rank, 3);
}

TEST(Detectors, RulesWithoutAMinimumHaveNoFloor) {
  ScaleFloorDetector floor({}, default_params(ScalerRule::kTorch));
  std::vector<Anomaly> out;
  floor.observe(applied(1, 1, 1.0), out);
  floor.observe(applied(2, 1, 0x1p-20), out);
  EXPECT_TRUE(out.empty());
}

// One range among others that stay healthy: its share of small elements (zeros and subnormals, of
// 100) and its abs-max per step; the answer: steps with a finding.
struct Small {
  std::uint64_t zeros, subnormals;
  double abs_max;
};
std::vector<std::uint64_t> underflows(const std::vector<Small>& steps,
                                      ScanPhase phase = ScanPhase::kReduced) {
  UnderflowDetector detector{AnomalyThresholds{}};
  std::vector<Anomaly> out;
  std::uint64_t step = 0;
  for (const Small& s : steps) {
    ++step;
    const std::vector<RangeRecord> fresh = {
        range(step, 0, phase, 100, 5, 0, 1.0),
        range(step, 1, phase, 100, s.zeros, s.subnormals, s.abs_max),
    };
    detector.observe(fresh, out);
  }
  std::vector<std::uint64_t> found;
  for (const Anomaly& a : out) {
    EXPECT_EQ(a.range, 1u);
    found.push_back(a.step);
  }
  return found;
}

std::vector<Small> then(std::vector<Small> first, const std::vector<Small>& next) {
  first.insert(first.end(), next.begin(), next.end());
  return first;
}

TEST(Underflow, Table) {
  using Steps = std::vector<std::uint64_t>;
  const std::vector<Small> healthy(10, Small{5, 5, 0.01});
  EXPECT_EQ(underflows(healthy), Steps{}) << "no jump";
  EXPECT_EQ(underflows(then(healthy, {{10, 60, 1e-5}})), Steps{11}) << "subnormals jump, all small";
  EXPECT_EQ(underflows(then(healthy, {{100, 0, 0}})), Steps{11}) << "all zero while others live";
  EXPECT_EQ(underflows(then(healthy, {{100, 0, 0}}), ScanPhase::kLocal), Steps{11}) << "before the reduction";
  EXPECT_EQ(underflows(then(healthy, {{10, 60, 1e-5}, {10, 60, 1e-5}})), Steps{11}) << "once while it lasts";
  EXPECT_EQ(underflows(then(healthy, {{10, 60, 1e-5}, {5, 5, 0.01}, {10, 60, 1e-5}})), (Steps{11, 13}))
      << "again after it recovered";
  const std::vector<Small> long_low = then(healthy, std::vector<Small>(30, Small{10, 60, 1e-5}));
  EXPECT_EQ(underflows(then(long_low, {{5, 5, 0.01}, {10, 60, 1e-5}})), (Steps{11, 42}))
      << "the average stays that of the healthy steps";
  EXPECT_EQ(underflows(then(healthy, {{10, 60, 8.0}})), Steps{})
      << "large elements too: sparse, no underflow";
  EXPECT_EQ(underflows(then(healthy, {{15, 15, 1e-5}})), Steps{}) << "a jump below the threshold";
  EXPECT_EQ(underflows(std::vector<Small>(20, Small{100, 0, 0})), Steps{}) << "never had a gradient";
  EXPECT_EQ(underflows({{5, 5, 0.01}, {100, 0, 0}}), Steps{}) << "too short a history";
}

TEST(Underflow, EveryRangeZeroAtOnceIsAConstantLoss) {
  UnderflowDetector detector{AnomalyThresholds{}};
  std::vector<Anomaly> out;
  for (std::uint64_t step = 1; step <= 20; ++step) {
    const std::uint64_t zeros = step > 12 ? 100 : 5;
    detector.observe(std::vector{range(step, 0, ScanPhase::kReduced, 100, zeros, 0, zeros == 100 ? 0 : 1e-5),
                                 range(step, 1, ScanPhase::kReduced, 100, zeros, 0, zeros == 100 ? 0 : 1e-5)},
                     out);
  }
  EXPECT_TRUE(out.empty());
}

TEST(Underflow, AnEmptyRangeIsIgnored) {
  UnderflowDetector detector{AnomalyThresholds{}};
  std::vector<Anomaly> out;
  for (std::uint64_t step = 1; step <= 20; ++step) {
    detector.observe(std::vector{range(step, 0, ScanPhase::kReduced, 0)}, out);
  }
  EXPECT_TRUE(out.empty());
}

// The steps at which norms, one per step, are found to be spikes. Below zero: a skipped step.
std::vector<std::uint64_t> spikes(const std::vector<double>& norms, AnomalyThresholds t = {}) {
  NormSpikeDetector detector{t};
  std::vector<Anomaly> out;
  std::uint64_t step = 0;
  for (const double norm : norms) {
    ++step;
    detector.observe(norm < 0 ? skipped(step, Reason::kNorm) : applied(step, norm), out);
  }
  std::vector<std::uint64_t> found;
  for (const Anomaly& a : out) {
    EXPECT_EQ(a.kind, AnomalyKind::kNormSpike);
    EXPECT_EQ(a.value, norms[a.step - 1]);
    found.push_back(a.step);
  }
  return found;
}

std::vector<double> followed_by(std::vector<double> first, const std::vector<double>& next) {
  first.insert(first.end(), next.begin(), next.end());
  return first;
}

TEST(NormSpike, Table) {
  using Steps = std::vector<std::uint64_t>;
  std::vector<double> calm;  // 16 norms, median 2
  for (int i = 0; i < 8; ++i) calm = followed_by(calm, {1.0, 2.0});
  EXPECT_EQ(spikes(calm), Steps{});
  EXPECT_EQ(spikes(followed_by(calm, {10.5})), Steps{17}) << "above five times the median";
  EXPECT_EQ(spikes(followed_by(calm, {10.0})), Steps{}) << "at it";
  EXPECT_EQ(spikes(followed_by({calm.begin() + 1, calm.end()}, {1000})), Steps{}) << "too short a history";
  EXPECT_EQ(spikes(followed_by(calm, {11, 1000, 12})), Steps{17}) << "once while it lasts";
  EXPECT_EQ(spikes(followed_by(calm, {11, 2, 11})), (Steps{17, 19})) << "again after it came down";
  EXPECT_EQ(spikes(followed_by(calm, {11, -1, 11})), Steps{17}) << "a skipped step has no norm";
  EXPECT_EQ(spikes(followed_by(calm, {NAN, INFINITY, 11})), Steps{19}) << "none of these is a norm";
  EXPECT_EQ(spikes(followed_by(std::vector<double>(20, 0.0), {1, 1})), Steps{})
      << "the first gradient at all";
}

TEST(NormSpike, TheMedianIsOfTheNewestNormsAndSpikesAreAmongThem) {
  using Steps = std::vector<std::uint64_t>;
  AnomalyThresholds t;
  t.spike_window = 4;
  t.spike_factor = 2;
  EXPECT_EQ(spikes({1, 1, 1, 1, 2.5}, t), Steps{5}) << "a window that is shorter than the history is enough";
  EXPECT_EQ(spikes({9, 9, 9, 9, 1, 1, 1, 1, 3}, t), Steps{9}) << "what has left the window is forgotten";
  EXPECT_EQ(spikes({1, 1, 1, 1, 8, 8, 8, 8, 8, 1, 17}, t), (Steps{5, 11})) << "what stays becomes the median";
}

TEST(NormSpike, SetsHaveTheirOwnNorms) {
  NormSpikeDetector detector{AnomalyThresholds{}};
  std::vector<Anomaly> out;
  for (std::uint64_t step = 1; step <= 20; ++step) {
    StepRecord small = applied(step, 1);
    StepRecord large = applied(step, 100);
    large.set = 1;
    detector.observe(small, out);
    detector.observe(large, out);
  }
  EXPECT_TRUE(out.empty());
}

TEST(NormSpike, AReleasedStepWasNotJudged) {
  NormSpikeDetector detector{AnomalyThresholds{}};
  std::vector<Anomaly> out;
  for (std::uint64_t step = 1; step <= 20; ++step) detector.observe(applied(step, 1), out);
  StepRecord last = applied(21, 100);
  last.decision.released = 1;
  detector.observe(last, out);
  EXPECT_TRUE(out.empty());
}

// A scaler's life as letters, a step each: '.' good, 'g' good and the scale grows, 'x' overflow and it backs
// off, 'h' overflow that hysteresis forgives, '=' two sets tell of a growth. The answer: steps with a
// finding.
std::vector<std::uint64_t> thrashes(const std::string& pattern, AnomalyThresholds t = {},
                                    std::uint64_t interval = 30, std::uint32_t hysteresis = 1) {
  ScalerParams params = default_params(ScalerRule::kApex);
  params.interval = interval;
  params.hysteresis = hysteresis;
  ScaleThrashDetector detector(t, params);
  std::vector<Anomaly> out;
  double scale = 1024;
  std::uint64_t step = 0;
  for (const char c : pattern) {
    ++step;
    StepRecord r = c == 'x' || c == 'h' ? skipped(step, Reason::kInf, 2, scale) : applied(step, 1, scale);
    if (c == 'g' || c == '=') r.scaler.scale = 2 * scale;
    if (c == 'h') r.scaler.scale = scale;
    detector.observe(r, out);
    if (c == '=') detector.observe(r, out);
    scale = r.scaler.scale;
  }
  std::vector<std::uint64_t> found;
  for (const Anomaly& a : out) {
    EXPECT_EQ(a.kind, AnomalyKind::kScaleThrash);
    EXPECT_EQ(a.rank, 2);
    found.push_back(a.step);
  }
  return found;
}

TEST(ScaleThrash, Table) {
  using Steps = std::vector<std::uint64_t>;
  AnomalyThresholds two;
  two.thrash_growths = 2;
  EXPECT_EQ(thrashes("gxgxgxgx"), Steps{}) << "four by default";
  EXPECT_EQ(thrashes("gxgxgxgxgx"), Steps{10}) << "and five";
  EXPECT_EQ(thrashes("gx..gx..gx..gx", two), Steps{6}) << "once while it lasts";
  EXPECT_EQ(thrashes("g..xg..x", two), Steps{8}) << "a tenth of the interval is at once";
  EXPECT_EQ(thrashes("g...xg...x", two), Steps{}) << "more is not";
  EXPECT_EQ(thrashes("gxg...xgx", two), Steps{}) << "one that held for a while begins anew";
  EXPECT_EQ(thrashes("gxg..gxgx", two), Steps{9}) << "one that held until the next does as well";
  EXPECT_EQ(thrashes("gx.....gxg...xgxgx", two), (Steps{9, 18})) << "again after it ended";
  EXPECT_EQ(thrashes("xxxxgx..xx", two), Steps{}) << "going down alone is none";
  EXPECT_EQ(thrashes("gxxgxx", two), Steps{5}) << "further down after a loss";
  EXPECT_EQ(thrashes("=x=x", two), Steps{4}) << "sets of one step tell of one growth";
  EXPECT_EQ(thrashes("gxgx", two, 1), Steps{4}) << "the shortest interval";
  EXPECT_EQ(thrashes("g.xg.x", two, 1), Steps{}) << "at once is the very next step then";
  EXPECT_EQ(thrashes("ghhxghhx", two, 10, 3), Steps{8}) << "overflows that were forgiven first";
}

TEST(ScaleThrash, WhatTheJobSetsBetweenTwoStepsIsNoGrowth) {
  AnomalyThresholds two;
  two.thrash_growths = 2;
  ScaleThrashDetector detector(two, default_params(ScalerRule::kTorch));
  std::vector<Anomaly> out;
  for (std::uint64_t step = 1; step <= 20; ++step) {
    // Set to 2048 before each step, which overflows.
    detector.observe(skipped(step, Reason::kInf, kOffenderUnknown, 2048), out);
  }
  EXPECT_TRUE(out.empty());
}

}  // namespace
}  // namespace stepgate::metrics::test

// What records become on the page, one behaviour at a time.
#include <gtest/gtest.h>

#include "metrics/catalogue.h"
#include "tests/metrics/publisher_fixture.h"

namespace stepgate::metrics::test {
namespace {

class Feed : public testing::Test {
 protected:
  void enforce() { source_.set_enforcing(true); }
  std::string page(int polls = 1) {
    if (!added_) publisher_.add_source(&source_);
    added_ = true;
    return page_of(publisher_, polls);
  }
  FakeSource source_;
  Publisher publisher_{quiet_options()};
  bool added_ = false;
};

TEST_F(Feed, DecisionFamiliesAreAbsentUntilEnforceAndStayAfterIt) {
  source_.push(applied(1));
  std::string text = page();
  for (const FamilyInfo& f : catalogue()) {
    if (needs_enforce(f)) {
      EXPECT_FALSE(has_family(text, f.name)) << f.name;
    }
  }
  enforce();
  text = page();
  for (const FamilyInfo& f : catalogue()) {
    if (needs_enforce(f)) {
      EXPECT_TRUE(has_family(text, f.name)) << f.name;
    }
  }
  EXPECT_EQ(sample(text, "stepgate_enforcing"), "1");
  source_.set_enforcing(false);
  text = page();
  EXPECT_EQ(sample(text, "stepgate_enforcing"), "0");
  EXPECT_TRUE(has_family(text, "stepgate_steps_total"));
}

TEST_F(Feed, WhatCanBeNamedInAdvanceIsZeroBeforeAnythingHappened) {
  enforce();
  const std::string text = page();
  for (const char* reason : {"nan", "inf", "veto", "norm"}) {
    EXPECT_EQ(sample(text, std::string("stepgate_steps_skipped_total{reason=\"") + reason + "\"}"), "0");
  }
  for (const char* kind : kAnomalyKindNames) {
    EXPECT_EQ(sample(text, std::string("stepgate_anomalies_total{kind=\"") + kind + "\"}"), "0");
  }
  for (const char* stage : kStageNames) {
    EXPECT_EQ(sample(text, std::string("stepgate_plugin_errors_total{stage=\"") + stage + "\"}"), "0");
  }
  for (const char* direction : {"up", "down", "external"}) {
    EXPECT_EQ(sample(text, std::string("stepgate_loss_scale_changes_total{direction=\"") + direction + "\"}"),
              "0");
  }
  EXPECT_EQ(sample(text, "stepgate_steps_total"), "0");
  EXPECT_EQ(sample(text, "stepgate_offending_rank"), "-3");
  EXPECT_EQ(sample(text, "stepgate_hooks_missed_total{cause=\"unhooked\"}"), "0");
}

TEST_F(Feed, ASkipHasAReasonARankAndNoNorm) {
  enforce();
  source_.push(applied(1, 2.5));
  std::string text = page();
  EXPECT_EQ(sample(text, "stepgate_gradient_norm"), "2.5");
  source_.push(skipped(2, Reason::kNan, 2));
  text = page();
  EXPECT_EQ(sample(text, "stepgate_steps_skipped_total{reason=\"nan\"}"), "1");
  EXPECT_EQ(sample(text, "stepgate_offending_rank"), "2");
  EXPECT_EQ(sample(text, "stepgate_gradient_norm"), "Nan");
  EXPECT_EQ(sample(text, "stepgate_consecutive_skips"), "1");
  EXPECT_EQ(sample(text, "stepgate_gradient_norm_hist_count"), "1");
  EXPECT_EQ(sample(text, "stepgate_last_decision_timestamp_seconds"), "1700000002");
  source_.push(applied(3));
  text = page();
  EXPECT_EQ(sample(text, "stepgate_offending_rank"), "2") << "of the last skip, not of the last step";
  EXPECT_EQ(sample(text, "stepgate_consecutive_skips"), "0");
}

TEST_F(Feed, ASkipThatWasNeverDecidedCountsAsAVeto) {
  enforce();
  source_.push(skipped(1, Reason::kNone));
  EXPECT_EQ(sample(page(), "stepgate_steps_skipped_total{reason=\"veto\"}"), "1");
}

TEST_F(Feed, AStepWithSeveralSetsIsOneStep) {
  enforce();
  StepRecord a = applied(1);
  StepRecord b = skipped(1, Reason::kInf);
  b.set = 1;
  a.scaler.scale = b.scaler.scale;  // both published after the update
  source_.push(a);
  source_.push(b);
  source_.push(applied(2, 1, 32768));
  const std::string text = page();
  EXPECT_EQ(sample(text, "stepgate_steps_total"), "2");
  EXPECT_EQ(sample(text, "stepgate_steps_applied_total"), "2");
  EXPECT_EQ(sample(text, "stepgate_steps_skipped_total{reason=\"inf\"}"), "1");
  EXPECT_EQ(sample(text, "stepgate_loss_scale_changes_total{direction=\"down\"}"), "1");
}

TEST_F(Feed, ClippedStepsAreAppliedOnes) {
  enforce();
  StepRecord r = applied(1, 4);
  r.decision.clip = 0.25;
  source_.push(r);
  const std::string text = page();
  EXPECT_EQ(sample(text, "stepgate_steps_clipped_total"), "1");
  EXPECT_EQ(sample(text, "stepgate_steps_applied_total"), "1");
  EXPECT_EQ(sample(text, "stepgate_clip_coefficient"), "0.25");
}

TEST_F(Feed, ScaleAtItsMinimum) {
  enforce();
  StepRecord down = skipped(1, Reason::kInf, kOffenderUnknown, 2.0);  // comes down to 1, the minimum
  down.scaler.hysteresis_left = 3;
  source_.push(down);
  std::string text = page();
  EXPECT_EQ(sample(text, "stepgate_loss_scale"), "1");
  EXPECT_EQ(sample(text, "stepgate_loss_scale_at_minimum"), "1");
  EXPECT_EQ(sample(text, "stepgate_steps_at_minimum_scale_total"), "0") << "this step still ran at 2";
  EXPECT_EQ(sample(text, "stepgate_hysteresis_remaining"), "3");
  EXPECT_EQ(sample(text, "stepgate_anomalies_total{kind=\"scale_floor\"}"), "1");
  StepRecord up = applied(2, 1, 1.0);
  up.scaler.scale = 2.0;
  up.scaler.growth_tracker = 5;
  source_.push(up);
  text = page();
  EXPECT_EQ(sample(text, "stepgate_steps_at_minimum_scale_total"), "1");
  EXPECT_EQ(sample(text, "stepgate_loss_scale_at_minimum"), "0");
  EXPECT_EQ(sample(text, "stepgate_growth_tracker"), "5");
  EXPECT_EQ(sample(text, "stepgate_loss_scale_changes_total{direction=\"up\"}"), "1");
}

TEST_F(Feed, CountersAddWhatGrewAndExternalChangesWaitForTheirFamily) {
  source_.change([](Counters& c) {
    c.reductions_scanned[0] = 3;
    c.reductions_passed[2] = 4;
    c.scanned_bytes = {10, 20};
    c.plugin_errors[static_cast<std::size_t>(Stage::kScan)] = 1;
    c.enforce_refused[static_cast<std::size_t>(RefuseReason::kConfig)] = 2;
    c.enforce_released[static_cast<std::size_t>(ReleaseReason::kDivergence)] = 1;
    c.ranges_missing = 5;
    c.ranges_rescanned = 6;
    c.hooks_missed = {7, 6, 5, 4, 3};
    c.external_scale_changes = 2;
  });
  page();
  source_.change([](Counters& c) { c.reductions_scanned[0] = 10; });
  enforce();
  const std::string text = page(3);
  EXPECT_EQ(sample(text, "stepgate_reductions_total{handling=\"scanned\",op=\"all_reduce\"}"), "10");
  EXPECT_EQ(sample(text, "stepgate_reductions_total{handling=\"passed\",op=\"reduce\"}"), "4");
  EXPECT_EQ(sample(text, "stepgate_scanned_bytes_total{phase=\"local\"}"), "10");
  EXPECT_EQ(sample(text, "stepgate_scanned_bytes_total{phase=\"reduced\"}"), "20");
  EXPECT_EQ(sample(text, "stepgate_plugin_errors_total{stage=\"scan\"}"), "1");
  EXPECT_EQ(sample(text, "stepgate_enforce_refused_total{reason=\"config\"}"), "2");
  EXPECT_EQ(sample(text, "stepgate_enforce_released_total{reason=\"divergence\"}"), "1");
  EXPECT_EQ(sample(text, "stepgate_ranges_missing_total"), "5");
  EXPECT_EQ(sample(text, "stepgate_ranges_rescanned_total"), "6");
  EXPECT_EQ(sample(text, "stepgate_hooks_missed_total{cause=\"unhooked\"}"), "7");
  EXPECT_EQ(sample(text, "stepgate_hooks_missed_total{cause=\"deepbind\"}"), "6");
  EXPECT_EQ(sample(text, "stepgate_hooks_missed_total{cause=\"tail_call\"}"), "3");
  EXPECT_EQ(sample(text, "stepgate_loss_scale_changes_total{direction=\"external\"}"), "2");
}

TEST_F(Feed, RecordsThatWereOverwrittenAreCountedAsDropped) {
  enforce();
  source_.set_ring(kRingRecords);
  for (std::uint64_t step = 1; step <= kRingRecords + 100; ++step) source_.push(applied(step));
  const std::string text = page();
  EXPECT_EQ(sample(text, "stepgate_events_dropped_total"), "100");
  EXPECT_EQ(sample(text, "stepgate_steps_total"), std::to_string(kRingRecords));
  EXPECT_EQ(sample(page(), "stepgate_events_dropped_total"), "100") << "counted once";
}

TEST_F(Feed, BucketsShowTheReducedGradient) {
  source_.name_range(0, "embedding");
  source_.put(range(1, 0, ScanPhase::kLocal, 100, 90, 0, 1000));
  source_.put(range(1, 0, ScanPhase::kReduced, 200, 50, 20, 12));
  const std::string text = page();
  EXPECT_EQ(sample(text, "stepgate_gradient_abs_max{bucket=\"embedding\"}"), "12");
  EXPECT_EQ(sample(text, "stepgate_gradient_zero_ratio{bucket=\"embedding\"}"), "0.25");
  EXPECT_EQ(sample(text, "stepgate_gradient_subnormal_ratio{bucket=\"embedding\"}"), "0.1");
}

std::string nonfinite(const std::string& text, const char* bucket, const char* kind, const char* phase) {
  return sample(text, std::string("stepgate_nonfinite_elements_total{bucket=\"") + bucket + "\",kind=\"" +
                          kind + "\",phase=\"" + phase + "\"}");
}

TEST_F(Feed, NonfiniteElementsByBucketOnceAStep) {
  source_.name_range(0, "head");
  StepRecord r = skipped(1, Reason::kNan);
  r.local_nan = 2;
  r.local_sum.nan = 5;
  r.local_sum.inf = 1;
  source_.push(r);
  source_.put(with_nonfinite(range(1, 0, ScanPhase::kLocal, 100), 0, 2));
  source_.put(with_nonfinite(range(1, 0, ScanPhase::kReduced, 100), 1, 5));
  const std::string text = page(5);
  EXPECT_EQ(nonfinite(text, "head", "nan", "local"), "2");
  EXPECT_EQ(nonfinite(text, "head", "nan", "reduced"), "5");
  EXPECT_EQ(nonfinite(text, "head", "inf", "reduced"), "1");
  EXPECT_EQ(nonfinite(text, "other", "nan", "reduced"), "absent") << "nothing was left over";
}

TEST_F(Feed, AStepWhoseRangesWereOvertakenGoesToOther) {
  source_.name_range(0, "head");
  StepRecord lost = skipped(1, Reason::kNan);
  lost.local_sum.nan = 5;
  source_.push(lost);
  source_.push(applied(2));
  source_.put(range(2, 0, ScanPhase::kReduced, 100));  // step 1's figures are gone
  const std::string text = page(2);
  EXPECT_EQ(nonfinite(text, "head", "nan", "reduced"), "0");
  EXPECT_EQ(nonfinite(text, "other", "nan", "reduced"), "5");
}

TEST_F(Feed, ARangeAheadOfItsStepWaitsForIt) {
  source_.name_range(0, "head");
  source_.push(applied(1));
  source_.put(with_nonfinite(range(2, 0, ScanPhase::kReduced, 100), 0, 5));
  std::string text = page();
  EXPECT_EQ(nonfinite(text, "head", "nan", "reduced"), "absent");
  StepRecord r = skipped(2, Reason::kNan);
  r.local_sum.nan = 5;
  source_.push(r);
  text = page(3);
  EXPECT_EQ(nonfinite(text, "head", "nan", "reduced"), "5");
  EXPECT_EQ(nonfinite(text, "other", "nan", "reduced"), "absent");
}

TEST_F(Feed, ObservedNormIsThatOfTheNewestStepAndEndsWithEnforce) {
  RangeRecord a = range(2, 0, ScanPhase::kReduced, 10);
  a.stats.sum_squares = 9;
  RangeRecord b = range(2, 1, ScanPhase::kReduced, 10);
  b.stats.sum_squares = 16;
  RangeRecord old = range(1, 2, ScanPhase::kReduced, 10);
  old.stats.sum_squares = 1e6;
  for (const RangeRecord& r : {a, b, old}) source_.put(r);
  EXPECT_EQ(sample(page(), "stepgate_observed_gradient_norm{source=\"inferred\"}"), "5");
  enforce();
  EXPECT_EQ(sample(page(), "stepgate_observed_gradient_norm{source=\"inferred\"}"), "Nan");
}

TEST_F(Feed, DurationsAreObservedWhereTheyAreKnown) {
  enforce();
  StepRecord r = applied(1);
  r.scan_seconds = 0.003;
  r.agreement_seconds = 0.0004;
  source_.push(r);
  source_.push(applied(2));  // no clock
  const std::string text = page();
  EXPECT_EQ(sample(text, "stepgate_scan_duration_seconds_count"), "1");
  EXPECT_EQ(sample(text, "stepgate_scan_duration_seconds_bucket{le=\"0.002\"}"), "0");
  EXPECT_EQ(sample(text, "stepgate_scan_duration_seconds_bucket{le=\"0.005\"}"), "1");
  EXPECT_EQ(sample(text, "stepgate_agreement_duration_seconds_count"), "1");
}

TEST_F(Feed, StepNumbersThatGoBackStartAnew) {
  enforce();
  source_.push(skipped(500, Reason::kNan));
  page();
  source_.push(skipped(1, Reason::kNan));
  const std::string text = page();
  EXPECT_EQ(sample(text, "stepgate_steps_total"), "2");
  EXPECT_EQ(sample(text, "stepgate_anomalies_total{kind=\"nan\"}"), "2");
}

TEST_F(Feed, DivergenceIsCounted) {
  enforce();
  StepRecord r = skipped(1, Reason::kVeto);
  r.decision.diverged = 1;
  source_.push(r);
  const std::string text = page();
  EXPECT_EQ(sample(text, "stepgate_divergence_total"), "1");
  EXPECT_EQ(sample(text, "stepgate_anomalies_total{kind=\"divergence\"}"), "1");
}

TEST_F(Feed, AVersionThatBecomesKnownReplacesTheInfoSeries) {
  Identity who = source_.identity();
  who.nccl_version = "";
  source_.set_identity(who);
  page();
  who.nccl_version = "2.29.0";
  source_.set_identity(who);
  const std::string text = page();
  int info = 0;
  for (const auto& [name, value] : samples(text)) info += name.rfind("stepgate_build_info{", 0) == 0;
  EXPECT_EQ(info, 1);
  EXPECT_NE(text.find("nccl_version=\"2.29.0\""), std::string::npos);
}

// As after stepgate_reset_world, and where a loaded state brings another rule.
TEST_F(Feed, AWorldAndARuleThatChangeReplaceTheInfoSeries) {
  page();
  Identity who = source_.identity();
  who.world = 7;
  who.rule = "apex";
  source_.set_identity(who);
  const std::string text = page();
  EXPECT_NE(text.find("world_size=\"7\""), std::string::npos);
  EXPECT_NE(text.find("rule=\"apex\""), std::string::npos);
  int info = 0;
  for (const auto& [name, value] : samples(text)) info += name.rfind("stepgate_job_info{", 0) == 0;
  EXPECT_EQ(info, 1);
}

}  // namespace
}  // namespace stepgate::metrics::test

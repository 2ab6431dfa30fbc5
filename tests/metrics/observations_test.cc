// What the job shows beside its gradients, on the page.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/metrics/publisher_fixture.h"

namespace stepgate::metrics::test {
namespace {

Observation shown(const std::string& name, std::uint64_t sequence, std::uint64_t elements = 4) {
  Observation o;
  o.name = name;
  o.sequence = sequence;
  o.stats.elements = elements;
  o.stats.sum_squares = 4.0 * static_cast<double>(elements);
  o.stats.abs_max = 2;
  return o;
}

Observation updated(const std::string& name, std::uint64_t sequence, std::uint64_t absorbed) {
  Observation o = shown(name, sequence);
  o.phase = ObservedPhase::kUpdate;
  o.updates = 4;
  o.absorbed = absorbed;
  return o;
}

class Observed : public testing::Test {
 protected:
  std::string page() {
    if (!added_) publisher_.add_source(&source_);
    added_ = true;
    return page_of(publisher_, 1);
  }
  PublisherOptions options() {
    PublisherOptions o = quiet_options();
    o.bucket_cap = 2;
    return o;
  }
  FakeSource source_;
  Publisher publisher_{options()};
  bool added_ = false;
};

TEST_F(Observed, FamiliesAreAbsentUntilSomethingIsShown) {
  EXPECT_FALSE(has_family(page(), "stepgate_observation_abs_max"));
  EXPECT_FALSE(has_family(page(), "stepgate_update_absorbed_ratio"));
}

TEST_F(Observed, GaugesAreOfTheNewestLookAndCountersOfAll) {
  Observation o = shown("relu", 1);
  o.stats.zeros = 1;
  o.stats.subnormals = 2;
  o.inf = 3;
  source_.show(o);
  std::string text = page();
  const std::string labels = "{name=\"relu\",phase=\"forward\"}";
  EXPECT_EQ(sample(text, "stepgate_observation_abs_max" + labels), "2");
  EXPECT_EQ(sample(text, "stepgate_observation_rms" + labels), "2");
  EXPECT_EQ(sample(text, "stepgate_observation_zero_ratio" + labels), "0.25");
  EXPECT_EQ(sample(text, "stepgate_observation_subnormal_ratio" + labels), "0.5");
  const std::string inf =
      "stepgate_observation_nonfinite_elements_total{kind=\"inf\",name=\"relu\",phase=\"forward\"}";
  EXPECT_EQ(sample(text, inf), "3");
  o.sequence = 2;
  o.stats.abs_max = 8;
  o.inf = 5;
  source_.show(o);
  text = page();
  EXPECT_EQ(sample(text, "stepgate_observation_abs_max" + labels), "8");
  EXPECT_EQ(sample(text, inf), "5");
}

TEST_F(Observed, TheMeanIsOverFiniteElements) {
  Observation o = shown("x", 1);
  o.stats.elements = 6;
  o.stats.nan = 1;
  o.stats.inf = 1;  // sum of squares: 16, of four elements
  source_.show(o);
  o = shown("y", 1);
  o.stats.nan = 4;
  source_.show(o);
  const std::string text = page();
  EXPECT_EQ(sample(text, "stepgate_observation_rms{name=\"x\",phase=\"forward\"}"), "2");
  EXPECT_EQ(sample(text, "stepgate_observation_rms{name=\"y\",phase=\"forward\"}"), "Nan");
}

TEST_F(Observed, NamesAboveTheCapAreTogetherUnderOther) {
  source_.show(shown("a", 1));
  source_.show(shown("b", 1));
  Observation o = shown("c", 1, 10);
  o.stats.zeros = 5;
  o.inf = 1;
  source_.show(o);
  o = shown("d", 1, 30);
  o.stats.abs_max = 7;
  o.inf = 2;
  source_.show(o);
  const std::string text = page();
  EXPECT_EQ(sample(text, "stepgate_observation_abs_max{name=\"c\",phase=\"forward\"}"), "absent");
  const std::string other = "{name=\"other\",phase=\"forward\"}";
  EXPECT_EQ(sample(text, "stepgate_observation_abs_max" + other), "7");
  EXPECT_EQ(sample(text, "stepgate_observation_zero_ratio" + other), "0.125");
  EXPECT_EQ(sample(text,
                   "stepgate_observation_nonfinite_elements_total{kind=\"inf\",name=\"other\",phase="
                   "\"forward\"}"),
            "3");
}

TEST_F(Observed, StagnationIsCountedWhenItBegins) {
  const std::string stagnation = "stepgate_anomalies_total{kind=\"stagnation\"}";
  source_.show(updated("w", 1, 1));
  EXPECT_EQ(sample(page(), stagnation), "0");
  EXPECT_EQ(sample(page(), "stepgate_update_absorbed_ratio{name=\"w\"}"), "0.25");
  source_.show(updated("w", 2, 2));
  EXPECT_EQ(sample(page(), stagnation), "1");
  source_.show(updated("w", 3, 4));
  EXPECT_EQ(sample(page(), stagnation), "1") << "it lasts";
  source_.show(updated("w", 4, 0));
  page();
  source_.show(updated("w", 5, 3));
  EXPECT_EQ(sample(page(), stagnation), "2");
}

TEST_F(Observed, WithoutAnUpdateNothingIsAbsorbed) {
  Observation o = updated("w", 1, 0);
  o.updates = 0;
  source_.show(o);
  const std::string text = page();
  EXPECT_EQ(sample(text, "stepgate_update_absorbed_ratio{name=\"w\"}"), "0");
  EXPECT_EQ(sample(text, "stepgate_anomalies_total{kind=\"stagnation\"}"), "0");
}

// A scaler of the job's own tells its scale: the norm is known in the gradient's own size.
TEST_F(Observed, AScaleFromOutsideUnscalesTheNorm) {
  source_.name_range(0, "b");
  RangeRecord r = range(1, 0, ScanPhase::kReduced, 4);
  r.stats.sum_squares = 64;
  source_.put(r);
  std::string text = page();
  EXPECT_EQ(sample(text, "stepgate_observed_gradient_norm{source=\"inferred\"}"), "8");
  EXPECT_EQ(sample(text, "stepgate_observed_gradient_norm{source=\"unscaled\"}"), "absent");
  EXPECT_EQ(sample(text, "stepgate_external_loss_scale"), "absent");
  r.step = 2;
  r.scale = 4;
  source_.put(r);
  text = page();
  EXPECT_EQ(sample(text, "stepgate_observed_gradient_norm{source=\"inferred\"}"), "8");
  EXPECT_EQ(sample(text, "stepgate_observed_gradient_norm{source=\"unscaled\"}"), "2");
  EXPECT_EQ(sample(text, "stepgate_external_loss_scale"), "4");
  for (const float none : {0.0f, -1.0f, INFINITY}) {
    ++r.step;
    r.scale = none;
    source_.put(r);
    EXPECT_EQ(sample(page(), "stepgate_observed_gradient_norm{source=\"unscaled\"}"), "Nan") << none;
  }
}

}  // namespace
}  // namespace stepgate::metrics::test

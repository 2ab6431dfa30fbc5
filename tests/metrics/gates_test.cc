// Several gates in one process, caps on series, and failures of a source.
#include <gtest/gtest.h>

#include <list>

#include "metrics/registry.h"
#include "metrics/source_set.h"
#include "tests/metrics/publisher_fixture.h"

namespace stepgate::metrics::test {
namespace {

void rename(FakeSource& source, const std::string& gate) {
  Identity who = source.identity();
  who.gate = gate;
  source.set_identity(who);
  source.set_enforcing(true);
}

TEST(Gates, OneGateHasNoLabelAndTheSecondGivesBothTheirs) {
  FakeSource generator, critic;
  rename(generator, "generator");
  rename(critic, "critic");
  Publisher publisher(quiet_options());
  publisher.add_source(&generator);
  StepRecord r = applied(1, 0.3);
  r.scan_seconds = 0.01;
  generator.push(r);
  std::string text = page_of(publisher);
  EXPECT_EQ(sample(text, "stepgate_steps_total"), "1");
  publisher.add_source(&critic);
  text = page_of(publisher);
  EXPECT_EQ(sample(text, "stepgate_steps_total"), "absent");
  EXPECT_EQ(sample(text, "stepgate_steps_total{gate=\"generator\"}"), "1") << "values move along";
  EXPECT_EQ(sample(text, "stepgate_steps_total{gate=\"critic\"}"), "0");
  EXPECT_EQ(sample(text, "stepgate_loss_scale{gate=\"generator\"}"), "65536");
  EXPECT_EQ(sample(text, "stepgate_scan_duration_seconds_count{gate=\"generator\"}"), "1");
  EXPECT_EQ(sample(text, "stepgate_scan_duration_seconds_bucket{gate=\"generator\",le=\"0.01\"}"), "1");
  EXPECT_EQ(sample(text, "stepgate_scan_duration_seconds_sum{gate=\"generator\"}"), "0.01");
  generator.push(applied(2));
  text = page_of(publisher);
  EXPECT_EQ(sample(text, "stepgate_steps_total{gate=\"generator\"}"), "2") << "references follow the label";
}

TEST(Gates, TheNinthAndLaterShareOther) {
  std::list<FakeSource> sources;
  Publisher publisher(quiet_options());
  for (int i = 0; i < 11; ++i) {
    rename(sources.emplace_back(), "g" + std::to_string(i));
    sources.back().push(applied(1));
    publisher.add_source(&sources.back());
  }
  const std::string text = page_of(publisher);
  EXPECT_EQ(sample(text, "stepgate_steps_total{gate=\"g7\"}"), "1");
  EXPECT_EQ(sample(text, "stepgate_steps_total{gate=\"g8\"}"), "absent");
  EXPECT_EQ(sample(text, "stepgate_steps_total{gate=\"other\"}"), "3");
  for (FakeSource& source : sources) publisher.remove_source(&source);
}

TEST(Gates, TwoLiveGatesOfOneNameAreToldApart) {
  FakeSource first, second, named_other;
  rename(first, "0");
  rename(second, "0");
  rename(named_other, "other");
  Publisher publisher(quiet_options());
  for (FakeSource* source : {&first, &second, &named_other}) publisher.add_source(source);
  const std::string text = page_of(publisher);
  EXPECT_EQ(sample(text, "stepgate_enforcing{gate=\"0\"}"), "1");
  EXPECT_EQ(sample(text, "stepgate_enforcing{gate=\"0-2\"}"), "1");
  EXPECT_EQ(sample(text, "stepgate_enforcing{gate=\"other-2\"}"), "1");
}

TEST(Gates, SeriesStayAndALaterGateOfThatNameGoesOn) {
  FakeSource next;
  Publisher publisher(quiet_options());
  {
    FakeSource source;
    rename(source, "0");
    source.push(applied(1));
    publisher.add_source(&source);
    publisher.remove_source(&source);
  }
  std::string text = page_of(publisher);
  EXPECT_EQ(sample(text, "stepgate_steps_total"), "1") << "read before it left";
  EXPECT_EQ(sample(text, "stepgate_enforcing"), "0");
  rename(next, "0");
  next.push(applied(1));
  publisher.add_source(&next);
  text = page_of(publisher);
  EXPECT_EQ(sample(text, "stepgate_steps_total"), "2");
  EXPECT_EQ(text.find("gate="), std::string::npos);
}

TEST(Gates, RemovedBeforeEverPolledStillPublishesWhatItHad) {
  Publisher publisher(quiet_options());
  FakeSource source;
  rename(source, "0");
  StepRecord bad = skipped(1, Reason::kNan);
  bad.local_sum.nan = 4;
  source.push(bad);
  publisher.add_source(&source);
  publisher.remove_source(&source);
  EXPECT_EQ(sample(publisher.page(),
                   "stepgate_nonfinite_elements_total{bucket=\"other\",kind=\"nan\",phase=\"reduced\"}"),
            "4");
}

TEST(Gates, UnknownAndNullSourcesAreIgnored) {
  Publisher publisher(quiet_options());
  FakeSource never;
  publisher.add_source(nullptr);
  publisher.remove_source(nullptr);
  publisher.remove_source(&never);
  EXPECT_EQ(never.calls(), 0u);
}

TEST(Gates, BucketsAboveTheCapShareOther) {
  PublisherOptions options = quiet_options();
  options.bucket_cap = 2;
  Publisher publisher(std::move(options));
  FakeSource source;
  const char* names[] = {"a", "b", "c", "d"};
  for (std::uint32_t i = 0; i < 4; ++i) {
    source.name_range(i, names[i]);
    source.put(with_nonfinite(range(1, i, ScanPhase::kReduced, 100, 10 * i, 0, 1.0 + i), 1, 0));
  }
  publisher.add_source(&source);
  const std::string text = page_of(publisher);
  EXPECT_EQ(sample(text, "stepgate_gradient_abs_max{bucket=\"b\"}"), "2");
  EXPECT_EQ(sample(text, "stepgate_gradient_abs_max{bucket=\"c\"}"), "absent");
  EXPECT_EQ(sample(text, "stepgate_gradient_abs_max{bucket=\"other\"}"), "4") << "the largest of c and d";
  EXPECT_EQ(sample(text, "stepgate_gradient_zero_ratio{bucket=\"other\"}"), "0.25") << "of both together";
  EXPECT_EQ(
      sample(text, "stepgate_nonfinite_elements_total{bucket=\"other\",kind=\"inf\",phase=\"reduced\"}"),
      "2");
  publisher.remove_source(&source);
}

TEST(Gates, TheDefaultCapIsSixtyFour) {
  Publisher publisher(quiet_options());
  FakeSource source;
  for (std::uint32_t i = 0; i < 100; ++i) {
    source.name_range(i, "bucket" + std::to_string(i));
    source.put(range(1, i, ScanPhase::kReduced, 100));
  }
  publisher.add_source(&source);
  int series = 0;
  for (const auto& [name, value] : samples(page_of(publisher))) {
    series += name.rfind("stepgate_gradient_abs_max{", 0) == 0;
  }
  EXPECT_EQ(series, 64 + 1);
  publisher.remove_source(&source);
}

TEST(Gates, ASourceThatThrowsCostsItsOwnPollOnly) {
  FakeSource bad, good;
  rename(bad, "bad");
  rename(good, "good");
  Publisher publisher(quiet_options());
  publisher.add_source(&bad);
  publisher.add_source(&good);
  page_of(publisher);
  bad.throw_from_counters(true);
  good.push(applied(1));
  std::string text = page_of(publisher);
  EXPECT_EQ(sample(text, "stepgate_steps_total{gate=\"good\"}"), "1");
  EXPECT_EQ(sample(text, "stepgate_plugin_errors_total{gate=\"bad\",stage=\"publish\"}"), "1");
  bad.throw_from_counters(false);
  bad.push(applied(1));
  text = page_of(publisher);
  EXPECT_EQ(sample(text, "stepgate_steps_total{gate=\"bad\"}"), "1");
}

TEST(Gates, FindingsReachTheListener) {
  std::vector<Anomaly> heard;
  PublisherOptions options = quiet_options();
  options.on_anomaly = [&](const Anomaly& a) { heard.push_back(a); };
  FakeSource source;
  Publisher publisher(std::move(options));
  publisher.add_source(&source);
  source.push(skipped(4, Reason::kNan, 2));
  publisher.poll_once();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].kind, AnomalyKind::kNan);
  EXPECT_EQ(heard[0].step, 4u);
  EXPECT_EQ(heard[0].rank, 2);
}

TEST(RegistryTest, ReferencesAreCachedAndAFamilyCannotBeTwoThings) {
  Registry registry;
  Series series(registry);
  CounterRef& once = series.counter(FamilyId::kSteps);
  EXPECT_EQ(&once, &series.counter(FamilyId::kSteps));
  prometheus::Counter* metric = once.metric;
  series.rebase({{"gate", "x"}});
  EXPECT_NE(once.metric, metric);
  EXPECT_EQ(&once, &series.counter(FamilyId::kSteps));
  EXPECT_EQ(registry.Collect().size(), 1u);
}

TEST(RegistryTest, ALabelValueMayHoldAnything) {
  Registry registry;
  Series series(registry);
  series.gauge(FamilyId::kAbsMax, {{"bucket", "a\"b\\c\nd\xff"}}).set(1);
  EXPECT_EQ(registry.Collect().size(), 1u);
}

}  // namespace
}  // namespace stepgate::metrics::test

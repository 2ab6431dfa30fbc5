// The report's checks: each of them must be able to fail. And the merged JSON.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "integration/examples/charlm_report/checks.h"
#include "integration/examples/charlm_report/merge.h"
#include "integration/examples/charlm_report/scrape.h"
#include "integration/examples/charlm_report/show.h"

namespace stepgate::test {
namespace {

using namespace charlm_report;

constexpr std::uint64_t kSteps = 50;

Step good_step(std::uint64_t step) {
  if (step == 1) return {1, true, "inf", 1024, std::nullopt};
  if (step == 30) return {30, true, "nan", 512, std::nullopt};
  return {step, false, "none", step < 30 ? 512.0 : 256.0, 0.5};
}

// Two ranks that did all that they must.
Run good_run() {
  Run run;
  run.unigram_entropy = 3;
  run.injections = {{30, 1, "nan", "hidden1.weight"}};
  for (int r = 0; r < 2; ++r) {
    Rank rank;
    rank.rank = r;
    rank.gated = true;
    rank.weights_checksum = "00ff";
    rank.metrics_url = "http://127.0.0.1:1947" + std::to_string(r) + "/metrics";
    rank.seconds = 1.5 + r;
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      rank.steps.push_back(good_step(step));
      rank.losses.push_back(4.0 - 0.05 * static_cast<double>(step) + r);
    }
    rank.offenders = {{1, r, "inf", "output.weight"}};
    run.ranks.push_back(rank);
  }
  run.ranks[1].offenders.push_back({30, 1, "nan", "hidden1.weight"});
  return run;
}

bool holds(const Run& run) {
  return all_hold(check_run(run, {.steps = kSteps, .model_overflow = true}));
}

TEST(Report, GoodRunHolds) {
  for (const Check& check : check_run(good_run(), {.steps = kSteps, .model_overflow = true})) {
    EXPECT_TRUE(check.holds) << check.what << ": " << check.detail;
  }
}

struct Fall {
  const char* name;
  std::function<void(Run&)> break_it;
};

class ReportFails : public testing::TestWithParam<Fall> {};

TEST_P(ReportFails, WhenOneThingIsWrong) {
  charlm_report::Run run = good_run();
  GetParam().break_it(run);
  EXPECT_FALSE(holds(run));
}

INSTANTIATE_TEST_SUITE_P(
    All, ReportFails,
    testing::Values(Fall{"rank_without_gate", [](Run& run) { run.ranks[1].gated = false; }},
                    Fall{"record_missing", [](Run& run) { run.ranks[1].steps.pop_back(); }},
                    Fall{"record_twice", [](Run& run) { run.ranks[0].steps[7] = run.ranks[0].steps[6]; }},
                    Fall{"decision_differs", [](Run& run) { run.ranks[1].steps[9].skip = true; }},
                    Fall{"reason_differs", [](Run& run) { run.ranks[1].steps[29].reason = "inf"; }},
                    Fall{"scale_differs", [](Run& run) { run.ranks[1].steps[40].scale = 128; }},
                    Fall{"norm_differs", [](Run& run) { run.ranks[1].steps[40].norm = 0.5000001; }},
                    Fall{"weights_differ", [](Run& run) { run.ranks[1].weights_checksum = "00fe"; }},
                    Fall{"model_did_not_overflow",
                         [](Run& run) {
                           for (Rank& rank : run.ranks) rank.steps[0] = {1, false, "none", 1024, 0.5};
                         }},
                    Fall{"first_skip_is_a_veto",
                         [](Run& run) {
                           for (Rank& rank : run.ranks) rank.steps[0].reason = "veto";
                         }},
                    Fall{"injection_applied",
                         [](Run& run) {
                           for (Rank& rank : run.ranks) rank.steps[29] = {30, false, "none", 512, 0.5};
                         }},
                    Fall{"nobody_blamed", [](Run& run) { run.ranks[1].offenders.pop_back(); }},
                    Fall{"wrong_parameter",
                         [](Run& run) { run.ranks[1].offenders[1].parameter = "hidden2.weight"; }},
                    Fall{"wrong_rank", [](Run& run) { run.ranks[1].offenders[1].rank = 0; }},
                    Fall{"nothing_learned",
                         [](Run& run) {
                           for (Rank& rank : run.ranks) rank.losses.assign(kSteps, 2.0);
                         }},
                    Fall{"worse_than_frequencies", [](Run& run) { run.unigram_entropy = 1; }},
                    Fall{"loss_not_a_number", [](Run& run) { run.ranks[0].losses[45] = std::nan(""); }}),
    [](const auto& suite) { return std::string(suite.param.name); });

TEST(Report, MergedJsonHasTheShapeThatIsPromised) {
  const auto merged = merged_json(good_run());
  EXPECT_EQ(merged.size(), 5u);
  EXPECT_EQ(merged.at("ranks").size(), 2u);
  EXPECT_EQ(merged.at("ranks")[1].at("rank"), 1);
  EXPECT_EQ(merged.at("ranks")[0].at("weights_checksum"), "00ff");
  EXPECT_EQ(merged.at("ranks")[0].at("steps")[0].dump(),
            R"({"step":1,"decision":"skip","reason":"inf","scale":1024.0,"norm":null})");
  EXPECT_EQ(merged.at("ranks")[0].at("steps")[1].dump(),
            R"({"step":2,"decision":"apply","reason":"none","scale":512.0,"norm":0.5})");
  EXPECT_EQ(merged.at("offenders").size(), 3u);
  EXPECT_EQ(merged.at("offenders")[2].dump(),
            R"({"step":30,"rank":1,"kind":"nan","parameter":"hidden1.weight"})");
  EXPECT_EQ(merged.at("loss").size(), kSteps);
  EXPECT_DOUBLE_EQ(merged.at("loss")[0].get<double>(), 4.45);
  EXPECT_EQ(merged.at("metrics")[1], "http://127.0.0.1:19471/metrics");
  EXPECT_EQ(merged.at("seconds"), 2.5);
}

TEST(Report, TableNamesTheBlamedRankAndParameter) {
  const std::string table = step_table(good_run());
  EXPECT_NE(table.find("skip (nan)    rank 1: nan in hidden1.weight"), std::string::npos) << table;
  EXPECT_NE(table.find("skip (inf)    all ranks"), std::string::npos) << table;
}

TEST(Report, PlotFallsFromTheUpperLeftToTheLowerRight) {
  const std::string plot = loss_plot({4, 3, 2, 1}, 4, 4);
  EXPECT_EQ(plot.substr(0, plot.find('+')),
            "   4.000 |*\n   3.000 | *\n   2.000 |  *\n   1.000 |   *\n         ");
}

TEST(Report, PageThatIsNotThereIsAnError) {
  EXPECT_THROW(fetch_page("http://127.0.0.1:1/metrics"), std::runtime_error);
  EXPECT_THROW(fetch_page("127.0.0.1:1"), std::runtime_error);
  EXPECT_TRUE(has_family("# TYPE stepgate_steps_total counter\n", "stepgate_steps_total"));
  EXPECT_FALSE(has_family("# TYPE stepgate_steps_total counter\n", "stepgate_steps"));
}

}  // namespace
}  // namespace stepgate::test

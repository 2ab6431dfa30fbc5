// A job that calls nothing of the plugin's, observed by a bare preload: its results are bit for bit those
// without the plugin, and its page says what its gradients were.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/integration/process.h"
#include "tests/metrics/page_text.h"

namespace stepgate::test {
namespace {

using namespace std::chrono_literals;
using Variables = std::map<std::string, std::string>;

constexpr int kSteps = 6;

class ObservedJob {
 public:
  explicit ObservedJob(bool stay) {
    if (stay) say("stay");
  }

  void start(bool preload, const Variables& more = {}) {
    for (int rank = 0; rank < 2; ++rank) {
      Variables v = {{"LD_LIBRARY_PATH", STEPGATE_TEST_LIB "/hostnccl"},
                     {"LD_PRELOAD", preload ? STEPGATE_TEST_LIB "/libstepgate.so" : ""},
                     {"RANK", std::to_string(rank)},
                     {"WORLD_SIZE", "2"},
                     {"LOCAL_RANK", std::to_string(rank)},
                     {"STEPGATE_METRICS_PORT", "0"},
                     {"STEPGATE_METRICS_FILE_SD_DIR", folder_.file("")},
                     {"STEPGATE_METRICS_TEXTFILE_DIR", folder_.file("")}};
      for (const auto& [name, value] : more) v[name] = value;
      process_[rank] =
          std::make_unique<Process>(std::vector<std::string>{OBSERVE_TEST_JOB, folder_.file(""),
                                                             std::to_string(rank), std::to_string(kSteps)},
                                    v);
    }
  }
  void wait_for_steps() { wait_for("steps done"); }
  void wait_for(const std::string& what) {
    for (auto& p : process_) EXPECT_TRUE(p->wait_for(what));
  }
  // Leaves a word for the job.
  void say(const std::string& word) { std::ofstream(folder_.file(word)) << "\n"; }
  void finish() {
    say("stop");
    for (auto& p : process_) {
      const Outcome o = p->finish();
      EXPECT_EQ(o.status, 0) << o.out << o.err;
      EXPECT_EQ(o.err, "");
    }
  }
  std::string bytes(int rank) const {
    std::ifstream in(folder_.file("bytes." + std::to_string(rank)), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // The page of a rank, by the target that it leaves for Prometheus.
  std::string page(int rank) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.file(""))) {
      if (entry.path().extension() != ".json") continue;
      std::ifstream in(entry.path());
      const auto target = nlohmann::json::parse(in).at(0);
      if (target.at("labels").at("rank") != std::to_string(rank)) continue;
      return metrics::test::http_get("http://" + target.at("targets").at(0).get<std::string>() + "/metrics")
          .body;
    }
    return "";
  }
  // Until it says what is wanted; the page.
  std::string page_until(int rank, const std::function<bool(const std::string&)>& good) const {
    std::string text;
    for (int i = 0; i < 1000; ++i) {
      text = page(rank);
      if (good(text)) return text;
      std::this_thread::sleep_for(20ms);
    }
    ADD_FAILURE() << "the page does not come to say it:\n" << text;
    return text;
  }
  std::string page_with(int rank, const std::string& name, const std::string& value) const {
    return page_until(rank,
                      [&](const std::string& text) { return metrics::test::sample(text, name) == value; });
  }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Process> process_[2];
};

double number(const std::string& page, const std::string& name) {
  const std::string value = metrics::test::sample(page, name);
  return value == "absent" ? -1 : std::stod(value);
}

TEST(Observe, ResultsAreBitForBitThoseWithoutThePlugin) {
  std::string want[2];
  for (const bool preload : {false, true}) {
    ObservedJob job(false);
    job.start(preload, {{"STEPGATE_ATTRIBUTION", "on"}});
    job.wait_for_steps();
    job.finish();
    for (int rank = 0; rank < 2; ++rank) {
      const std::string bytes = job.bytes(rank);
      EXPECT_EQ(bytes.size(), kSteps * (5000u * 4 + 5000 * 2 + 5000 * 4 + 1250 * 4 + 4)) << rank;
      if (!preload) want[rank] = bytes;
      EXPECT_TRUE(bytes == want[rank]) << "rank " << rank << ": the plugin changed a result";
    }
  }
}

TEST(Observe, ThePageSaysWhatTheGradientsWere) {
  ObservedJob job(true);
  job.start(true);
  job.wait_for_steps();
  // Exact in its sum over buckets: a step that was overtaken before it was read is in "other", a look later.
  const auto nans = [](const std::string& text) {
    double sum = 0;
    for (const char* bucket : {"all_reduce.0", "other"}) {
      sum += std::max(0.0, number(text, std::string("stepgate_nonfinite_elements_total{bucket=\"") + bucket +
                                            "\",kind=\"nan\",phase=\"reduced\"}"));
    }
    return sum;
  };
  // A look of the publisher may come in the middle of the steps.
  const std::string scanned = "stepgate_reductions_total{handling=\"scanned\",op=\"all_reduce\"}",
                    inferred = "stepgate_observed_gradient_norm{source=\"inferred\"}";
  const std::string page = job.page_until(0, [&](const std::string& text) {
    return nans(text) == 1 && metrics::test::sample(text, scanned) == "12" &&
           !std::isnan(number(text, inferred));
  });
  EXPECT_EQ(metrics::test::sample(page, "stepgate_anomalies_total{kind=\"nan\"}"), "1");
  EXPECT_EQ(
      metrics::test::sample(page, "stepgate_reductions_total{handling=\"scanned\",op=\"reduce_scatter\"}"),
      "6");
  EXPECT_EQ(metrics::test::sample(page, "stepgate_reductions_total{handling=\"passed\",op=\"all_reduce\"}"),
            "12");
  EXPECT_EQ(metrics::test::sample(page, "stepgate_enforcing"), "0");
  EXPECT_GT(number(page, "stepgate_gradient_abs_max{bucket=\"all_reduce.0\"}"), 2.9);
  EXPECT_GT(number(page, "stepgate_gradient_abs_max{bucket=\"reduce_scatter.0\"}"), 2.9);
  const double norm = number(page, inferred);
  EXPECT_GT(norm, 10);
  EXPECT_LT(norm, 1000);
  EXPECT_EQ(metrics::test::sample(page, "stepgate_observed_gradient_norm{source=\"unscaled\"}"), "absent");
  for (const char* family : {"stepgate_loss_scale", "stepgate_steps_total", "stepgate_gradient_norm"}) {
    EXPECT_EQ(metrics::test::sample(page, family), "absent") << "nothing is known of a scale or a decision";
  }
  job.finish();
}

// Told before anything is observed, and taken back by the end of the gate that told it: what is read after
// that is no memory any more.
TEST(Observe, TheJobsOwnScaleIsDividedOutForAsLongAsItIsTold) {
  const std::string scale = "stepgate_external_loss_scale{gate=\"observed\"}",
                    inferred = "stepgate_observed_gradient_norm{gate=\"observed\",source=\"inferred\"}",
                    unscaled = "stepgate_observed_gradient_norm{gate=\"observed\",source=\"unscaled\"}";
  ObservedJob job(true);
  job.say("scaled");
  job.start(true);
  job.wait_for_steps();
  // Not the step with the NaN.
  const std::string with = job.page_until(0, [&](const std::string& text) {
    return metrics::test::sample(text, unscaled) != "absent" && !std::isnan(number(text, unscaled));
  });
  EXPECT_EQ(metrics::test::sample(with, scale), "1024");
  EXPECT_GT(number(with, inferred), 10);
  EXPECT_DOUBLE_EQ(number(with, inferred), number(with, unscaled) * 1024);
  job.say("forget");
  job.wait_for("steps without a scale done");
  const std::string without = job.page_until(0, [&](const std::string& text) {
    return std::isnan(number(text, scale)) && !std::isnan(number(text, inferred));
  });
  EXPECT_TRUE(std::isnan(number(without, unscaled)));
  EXPECT_GT(number(without, inferred), 10);
  job.finish();
}

TEST(Observe, NamesAboveTheCapAreOther) {
  ObservedJob job(true);
  job.start(true, {{"STEPGATE_METRICS_BUCKETS", "1"}});
  job.wait_for_steps();
  const std::string page = job.page_with(1, "stepgate_anomalies_total{kind=\"nan\"}", "1");
  EXPECT_NE(metrics::test::sample(page, "stepgate_gradient_abs_max{bucket=\"all_reduce.0\"}"), "absent");
  EXPECT_EQ(metrics::test::sample(page, "stepgate_gradient_abs_max{bucket=\"all_reduce.1\"}"), "absent");
  EXPECT_NE(metrics::test::sample(page, "stepgate_gradient_abs_max{bucket=\"other\"}"), "absent");
  job.finish();
}

// TP ranks reduce activations, counters are reduced in small pieces: the rule can be told.
TEST(Observe, TheRuleIsConfiguration) {
  ObservedJob job(true);
  job.start(true, {{"STEPGATE_OBSERVE_MIN_COUNT", "5001"}});
  job.wait_for_steps();
  const std::string page =
      job.page_with(0, "stepgate_reductions_total{handling=\"passed\",op=\"all_reduce\"}", "24");
  EXPECT_EQ(metrics::test::sample(page, "stepgate_reductions_total{handling=\"scanned\",op=\"all_reduce\"}"),
            "0");
  job.finish();
}

}  // namespace
}  // namespace stepgate::test

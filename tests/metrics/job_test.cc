// The job's series on rank 0's page.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "metrics/job_feed.h"
#include "tests/metrics/fake_job.h"
#include "tests/metrics/publisher_fixture.h"

namespace stepgate::metrics::test {
namespace {

struct Page {
  FakeSource source;
  FakeJob job;
  std::vector<Anomaly> heard;
  Publisher publisher;

  explicit Page(std::size_t ranks) : job(ranks), publisher(options()) {
    publisher.add_source(&source);
    publisher.add_job_source(&job);
  }
  ~Page() { publisher.remove_job_source(); }
  PublisherOptions options() {
    PublisherOptions o = quiet_options();
    o.on_anomaly = [this](const Anomaly& a) { heard.push_back(a); };
    return o;
  }
  std::string value(const std::string& name) { return sample(page_of(publisher), name); }
};

TEST(Job, RanksAreCountedAndShown) {
  Page p(3);
  p.job.rank(0).up = p.job.rank(2).up = true;
  p.job.rank(1).silent = true;
  p.job.rank(1).silent_seconds = 61.5;
  p.job.rank(2).last_step = 9;
  p.job.rank(2).enforcing = true;
  EXPECT_EQ(p.value("stepgate_job_ranks_up"), "2");
  EXPECT_EQ(p.value("stepgate_job_ranks_silent"), "1");
  EXPECT_EQ(p.value("stepgate_job_rank_up{rank=\"1\"}"), "0");
  EXPECT_EQ(p.value("stepgate_job_rank_up{rank=\"2\"}"), "1");
  EXPECT_EQ(p.value("stepgate_job_rank_silent_seconds{rank=\"1\"}"), "61.5");
  EXPECT_EQ(p.value("stepgate_job_rank_last_step{rank=\"2\"}"), "9");
  EXPECT_EQ(p.value("stepgate_job_rank_enforcing{rank=\"2\"}"), "1");
  p.job.rank(2).released = true;
  EXPECT_EQ(p.value("stepgate_job_rank_enforcing{rank=\"2\"}"), "0");
}

TEST(Job, BoundsAreOfRanksThatHaveSaidSomething) {
  Page p(3);
  EXPECT_EQ(p.value("stepgate_job_last_step{bound=\"lowest\"}"), "absent");
  p.job.rank(0).seen = p.job.rank(1).seen = true;
  p.job.rank(0).last_step = 12;
  p.job.rank(1).last_step = 10;
  p.job.rank(0).loss_scale = 256;
  p.job.rank(1).loss_scale = 128;
  EXPECT_EQ(p.value("stepgate_job_last_step{bound=\"lowest\"}"), "10");
  EXPECT_EQ(p.value("stepgate_job_last_step{bound=\"highest\"}"), "12");
  EXPECT_EQ(p.value("stepgate_job_loss_scale{bound=\"lowest\"}"), "128");
  EXPECT_EQ(p.value("stepgate_job_loss_scale{bound=\"highest\"}"), "256");
  EXPECT_EQ(p.value("stepgate_job_rank_loss_scale{rank=\"1\"}"), "128");
  EXPECT_EQ(p.value("stepgate_job_rank_loss_scale{rank=\"2\"}"), "absent") << "it has none yet";
}

TEST(Job, CountersGoOnWhereARankStartsAgain) {
  Page p(2);
  p.job.rank(1).skipped = {1, 2, 0, 0};
  p.job.rank(1).local_nan = 10;
  EXPECT_EQ(p.value("stepgate_job_rank_steps_skipped_total{rank=\"1\"}"), "3");
  p.job.rank(1).skipped = {1, 0, 0, 0};  // a new process, which counts from zero
  p.job.rank(1).local_nan = 4;
  EXPECT_EQ(p.value("stepgate_job_rank_steps_skipped_total{rank=\"1\"}"), "4");
  EXPECT_EQ(p.value("stepgate_job_rank_nonfinite_elements_total{kind=\"nan\",rank=\"1\"}"), "14");
  EXPECT_EQ(p.value("stepgate_job_rank_nonfinite_elements_total{kind=\"inf\",rank=\"1\"}"), "0");
}

TEST(Job, ASilenceIsAnAnomalyOfTheFirstGateAndIsHandedOut) {
  Page p(2);
  FakeSource second;
  p.job.find(1);
  EXPECT_EQ(p.value("stepgate_anomalies_total{kind=\"silent_rank\"}"), "1");
  ASSERT_EQ(p.heard.size(), 1u);
  EXPECT_EQ(p.heard[0].rank, 1);
  Identity who = second.identity();
  who.gate = "later";
  second.set_identity(who);
  p.publisher.add_source(&second);  // now gates have a label
  p.job.find(1);
  EXPECT_EQ(p.value("stepgate_anomalies_total{gate=\"0\",kind=\"silent_rank\"}"), "2");
  EXPECT_EQ(p.value("stepgate_anomalies_total{gate=\"later\",kind=\"silent_rank\"}"), "0");
  p.publisher.remove_source(&second);
}

// Ten thousand ranks: their sums are exact, their own series are bounded.
TEST(Job, RanksBeyondTheCapShareTheirCounters) {
  Page p(kRankSeries + 2);
  for (std::size_t i = 0; i < kRankSeries + 2; ++i) {
    p.job.rank(i).up = true;
    p.job.rank(i).skipped = {1, 0, 0, 0};
  }
  const std::string page = page_of(p.publisher);
  EXPECT_EQ(sample(page, "stepgate_job_ranks_up"), "1026");
  EXPECT_EQ(sample(page, "stepgate_job_rank_up{rank=\"1023\"}"), "1");
  EXPECT_EQ(sample(page, "stepgate_job_rank_up{rank=\"1024\"}"), "absent");
  EXPECT_EQ(sample(page, "stepgate_job_rank_steps_skipped_total{rank=\"other\"}"), "2");
  EXPECT_EQ(sample(page, "stepgate_job_rank_steps_skipped_total{rank=\"1023\"}"), "1");
}

TEST(Job, SeriesStayWhenTheSourceIsGone) {
  Page p(1);
  p.job.rank(0).up = true;
  EXPECT_EQ(p.value("stepgate_job_ranks_up"), "1");
  p.job.view().offenders_lost = 3;
  p.publisher.remove_job_source();
  EXPECT_EQ(p.value("stepgate_job_offenders_dropped_total"), "3") << "a last look";
  EXPECT_EQ(p.value("stepgate_job_ranks_up"), "1");
}

std::string page_with_restarts(std::optional<std::uint64_t> torchelastic,
                               std::optional<std::uint64_t> slurm) {
  FakeSource source;
  Identity who = source.identity();
  who.torchelastic_restarts = torchelastic;
  who.slurm_restarts = slurm;
  source.set_identity(who);
  Publisher publisher(quiet_options());
  publisher.add_source(&source);
  return page_of(publisher);
}

TEST(Job, RestartsAreShownWhereSomebodyCountsThem) {
  const std::string by_torch = "stepgate_job_restarts{by=\"torchelastic\"}";
  const std::string by_slurm = "stepgate_job_restarts{by=\"slurm\"}";
  const std::string slurm = page_with_restarts(std::nullopt, 2);
  EXPECT_EQ(sample(slurm, by_slurm), "2");
  EXPECT_EQ(sample(slurm, by_torch), "absent");
  const std::string torch = page_with_restarts(3, std::nullopt);
  EXPECT_EQ(sample(torch, by_torch), "3");
  EXPECT_EQ(sample(torch, by_slurm), "absent");
  // One may happen inside the other.
  const std::string both = page_with_restarts(0, 1);
  EXPECT_EQ(sample(both, by_torch), "0");
  EXPECT_EQ(sample(both, by_slurm), "1");
}

}  // namespace
}  // namespace stepgate::metrics::test

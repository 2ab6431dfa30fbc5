// The plane of real processes over UCX: ranks that die, are stopped, come back or belong to another run,
// and what rank 0's page says of them. Every expectation has a deadline; none of them is a sleep.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "plugin/core/plane/rendezvous.h"
#include "tests/integration/process.h"
#include "tests/metrics/page_text.h"

namespace stepgate::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Variables = std::map<std::string, std::string>;

constexpr auto kSoon = 60s;  // what takes a second or two on a machine that is not loaded

std::string page(const std::string& url) {
  return url.empty() ? "" : metrics::test::http_get(url).body;
}

// Seconds until the sample has the value, or -1.
double wait_for(const std::string& url, const std::string& sample, const std::function<bool(double)>& good) {
  const auto begin = Clock::now();
  while (Clock::now() - begin < kSoon) {
    const std::string value = metrics::test::sample(page(url), sample);
    if (value != "absent" && good(std::stod(value))) {
      return std::chrono::duration<double>(Clock::now() - begin).count();
    }
    std::this_thread::sleep_for(20ms);
  }
  ADD_FAILURE() << sample << " did not come to be; the page says "
                << metrics::test::sample(page(url), sample);
  return -1;
}
double wait_for(const std::string& url, const std::string& sample, double value) {
  return wait_for(url, sample, [value](double v) { return v == value; });
}

std::string up(int rank) {
  return "stepgate_job_rank_up{rank=\"" + std::to_string(rank) + "\"}";
}
std::string last_step(int rank) {
  return "stepgate_job_rank_last_step{rank=\"" + std::to_string(rank) + "\"}";
}
const std::string kSilent = "stepgate_anomalies_total{kind=\"silent_rank\"}";

double value_of(const std::string& url, const std::string& sample) {
  const std::string value = metrics::test::sample(page(url), sample);
  return value == "absent" ? -1 : std::stod(value);
}

// Ranks of mpirun, as far as they can tell, with the plugin preloaded and nothing else done for them.
class Ranks {
 public:
  explicit Ranks(int world) : world_(world), port_(plane::RendezvousServer("127.0.0.1", 0, "", 2).port()) {}
  ~Ranks() { ask("stop"); }

  void start(int rank, const std::vector<std::string>& words = {}, const Variables& more = {}) {
    Variables v = {{"LD_PRELOAD", preload()},
                   {"LD_LIBRARY_PATH", STEPGATE_TEST_LIB "/hostnccl"},
                   {"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                   {"OMPI_COMM_WORLD_SIZE", std::to_string(world_)},
                   {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank)},
                   {"PMIX_NAMESPACE", "prterun-test@1"},
                   {"STEPGATE_MODE", "enforce"},
                   {"STEPGATE_METRICS_PORT", "0"},
                   {"STEPGATE_PLANE", "on"},
                   {"STEPGATE_PLANE_TIMEOUT", "3"},
                   {"STEPGATE_ANOMALY_SILENT_SECONDS", "5"},
                   {"STEPGATE_RENDEZVOUS", "127.0.0.1:" + std::to_string(port_)}};
    for (const auto& [name, value] : more) v[name] = value;
    std::vector<std::string> all = {PLANE_TEST_WORKER, folder_.file("")};
    all.insert(all.end(), words.begin(), words.end());
    process_[rank] = std::make_unique<Process>(all, v);
  }
  Process& operator[](int rank) { return *process_[rank]; }
  void drop(int rank) { process_.erase(rank); }
  void ask(const std::string& what) { std::ofstream(folder_.file(what)) << "\n"; }
  // Of rank 0, once it has one.
  std::string url() {
    EXPECT_TRUE(process_[0]->wait_for("page http")) << "rank 0 has no page";
    return url_from(process_[0]->printed());
  }
  static std::string url_from(const std::string& out) {
    const std::size_t at = out.find("page http");
    return at == std::string::npos ? "" : out.substr(at + 5, out.find('\n', at) - at - 5);
  }

 private:
  static std::string preload() {
    const std::string shim = STEPGATE_TEST_LIB "/libstepgate.so", runtime = PLANE_TEST_RUNTIME;
    return runtime.empty() ? shim : runtime + " " + shim;
  }
  const int world_;
  const std::uint16_t port_;
  TemporaryFolder folder_;
  std::map<int, std::unique_ptr<Process>> process_;
};

TEST(PlaneJob, DeathStopReturnAndGoodbyeAreOnRankZerosPage) {
  Ranks ranks(4);
  for (int r = 0; r < 4; ++r) ranks.start(r);
  const std::string url = ranks.url();
  wait_for(url, "stepgate_job_ranks_up", 4);
  for (int r = 0; r < 4; ++r) wait_for(url, last_step(r), [](double v) { return v > 2; });
  EXPECT_EQ(value_of(url, "stepgate_job_rank_loss_scale{rank=\"3\"}"), 65536);
  EXPECT_EQ(value_of(url, "stepgate_job_rank_enforcing{rank=\"3\"}"), 1);
  EXPECT_EQ(value_of(url, kSilent), 0);

  // Killed: its connection closes. The others' links do not notice.
  ASSERT_EQ(::kill(ranks[3].pid(), SIGKILL), 0);
  std::printf("killed rank: down after %.3f s\n", wait_for(url, up(3), 0));
  EXPECT_EQ(value_of(url, "stepgate_job_ranks_up"), 3);

  // Stopped: nothing closes, the deadline tells.
  ASSERT_EQ(::kill(ranks[2].pid(), SIGSTOP), 0);
  std::printf("stopped rank: down after %.3f s\n", wait_for(url, up(2), 0));
  EXPECT_EQ(value_of(url, up(1)), 1);
  wait_for(url, kSilent, [](double v) { return v >= 2; });
  EXPECT_GE(value_of(url, "stepgate_job_ranks_silent"), 1);
  EXPECT_GT(value_of(url, "stepgate_job_rank_silent_seconds{rank=\"2\"}"), 3);
  const double others = value_of(url, last_step(1));
  wait_for(url, last_step(1), [others](double v) { return v > others; });

  // Both come back: one goes on, one is started again.
  ASSERT_EQ(::kill(ranks[2].pid(), SIGCONT), 0);
  wait_for(url, up(2), 1);
  ranks.start(3);
  wait_for(url, up(3), 1);
  wait_for(url, "stepgate_job_ranks_silent", 0);

  // Asked to end, each says goodbye; nobody is silent for that.
  ranks.ask("stop");
  for (int r = 1; r < 4; ++r) {
    const Outcome o = ranks[r].finish(kSoon);
    EXPECT_EQ(o.status, 0) << o.out << o.err;
  }
  const Outcome zero = ranks[0].finish(kSoon);
  EXPECT_EQ(zero.status, 0) << zero.out << zero.err;
  EXPECT_NE(zero.err.find("rank 3 is silent: for "), std::string::npos) << zero.err;
  EXPECT_NE(zero.err.find("rank 2 is silent: for "), std::string::npos) << zero.err;
  EXPECT_EQ(zero.err.find("rank 1 is silent"), std::string::npos) << zero.err;
}

TEST(PlaneJob, TheOffendersOfAllRanksAreOnRankZero) {
  Ranks ranks(3);
  ranks.start(0);
  ranks.start(1, {"offend", "5"});
  ranks.start(2, {"offend", "5"});
  EXPECT_TRUE(ranks[0].wait_for("offenders done", kSoon));
  const std::string url = ranks.url();
  wait_for(url, "stepgate_job_rank_nonfinite_elements_total{kind=\"nan\",rank=\"1\"}", 2);
  wait_for(url, "stepgate_job_rank_nonfinite_elements_total{kind=\"inf\",rank=\"2\"}", 1);
  wait_for(url, "stepgate_job_rank_steps_skipped_total{rank=\"2\"}", 1);
  EXPECT_EQ(value_of(url, "stepgate_job_rank_steps_skipped_total{rank=\"0\"}"), 0);
  ranks.ask("stop");
  const Outcome zero = ranks[0].finish(kSoon);
  for (const char* line :
       {"offender step 5 rank 1 bucket/wte nan 1 inf 0", "offender step 5 rank 1 bucket/wk nan 0 inf 1",
        "offender step 5 rank 1 bucket/ln nan 1 inf 0", "offender step 5 rank 2 bucket/wte nan 1 inf 0",
        "offender step 5 rank 2 bucket/wk nan 0 inf 1", "offender step 5 rank 2 bucket/ln nan 1 inf 0"}) {
    EXPECT_NE(zero.out.find(line), std::string::npos) << zero.out;
  }
}

// A child of a data loader keeps its parent's sockets open: then the deadline tells of the death.
TEST(PlaneJob, ADeathIsSeenInSpiteOfAChildThatLivesOn) {
  Ranks ranks(2);
  ranks.start(0);
  ranks.start(1);
  const std::string url = ranks.url();
  wait_for(url, up(1), 1);
  ranks.ask("fork.1");
  ASSERT_TRUE(ranks[1].wait_for("child ", kSoon));
  const std::string printed = ranks[1].printed();
  const pid_t child = std::stoi(printed.substr(printed.find("child ") + 6));
  ASSERT_EQ(::kill(ranks[1].pid(), SIGKILL), 0);
  std::printf("killed rank with a child: down after %.3f s\n", wait_for(url, up(1), 0));
  ::kill(child, SIGKILL);
}

// A process that a restart left behind must not speak for a rank of the new run.
TEST(PlaneJob, AProcessOfAnotherRestartIsKeptOut) {
  Ranks ranks(2);
  ranks.start(0, {}, {{"SLURM_RESTART_COUNT", "2"}});
  ranks.start(1, {}, {{"SLURM_RESTART_COUNT", "1"}, {"STEPGATE_PLANE_TIMEOUT", "1"}});
  const std::string url = ranks.url();
  EXPECT_EQ(value_of(url, "stepgate_job_restarts{by=\"slurm\"}"), 2);
  wait_for(url, kSilent, 1);
  EXPECT_EQ(value_of(url, up(1)), 0);
  ranks.ask("stop");
  const Outcome one = ranks[1].finish(kSoon);
  EXPECT_EQ(one.status, 0) << "the job's own work is not touched";
  EXPECT_NE(one.err.find("rank 0 does not let this rank in: run 'prterun-test@1 restart -/1'; rank 0 is of "
                         "run 'prterun-test@1 restart -/2'"),
            std::string::npos)
      << one.err;
}

TEST(PlaneJob, RankZerosDeathLeavesTheOthersAlone) {
  Ranks ranks(2);
  ranks.start(0);
  ranks.start(1);
  wait_for(ranks.url(), up(1), 1);
  ASSERT_EQ(::kill(ranks[0].pid(), SIGKILL), 0);
  ranks.drop(0);
  ranks.ask("stop");
  const Outcome one = ranks[1].finish(kSoon);
  EXPECT_EQ(one.status, 0) << one.out << one.err;
}

// What the job's own settings of UCX, or their absence, would do to it is not risked.
TEST(PlaneJob, WithoutASafeUcxEnvironmentItStaysOffAndSaysSo) {
  Ranks ranks(2);
  ranks.start(0, {}, {{"UCX_HANDLE_ERRORS", "bt"}});
  ranks.url();
  ranks.ask("stop");
  const Outcome zero = ranks[0].finish(kSoon);
  EXPECT_EQ(zero.status, 0) << zero.out << zero.err;
  EXPECT_NE(zero.err.find("the plane stays off: "), std::string::npos) << zero.err;
  EXPECT_NE(zero.err.find("export UCX_HANDLE_ERRORS=none,"), std::string::npos) << zero.err;
}

TEST(PlaneJob, WhereNobodyKnowsRankZeroItStaysOffAndSaysSo) {
  Ranks ranks(2);
  ranks.start(0, {}, {{"STEPGATE_RENDEZVOUS", ""}, {"MASTER_ADDR", ""}, {"MASTER_PORT", ""}});
  ranks.url();
  ranks.ask("stop");
  const Outcome zero = ranks[0].finish(kSoon);
  EXPECT_EQ(zero.status, 0) << zero.out << zero.err;
  EXPECT_NE(zero.err.find("the plane stays off: nobody says where rank 0 is"), std::string::npos) << zero.err;
}

// Without an id any run's ranks would be let in by any other's; on this machine alone that is its user's
// matter.
TEST(PlaneJob, WithoutARunIdItMeetsOnTheLoopbackOnly) {
  const auto said = [](const std::string& rendezvous, const std::string& id) {
    Ranks ranks(2);
    ranks.start(0, {},
                {{"STEPGATE_RENDEZVOUS", rendezvous}, {"PMIX_NAMESPACE", ""}, {"STEPGATE_RUN_ID", id}});
    ranks.url();
    ranks.ask("stop");
    const Outcome zero = ranks[0].finish(kSoon);
    EXPECT_EQ(zero.status, 0) << zero.out << zero.err;
    return zero.err;
  };
  const std::string port = std::to_string(plane::RendezvousServer("127.0.0.1", 0, "", 2).port());
  const std::string off = "the plane stays off: the rendezvous 0.0.0.0:" + port + " is open to a network";
  EXPECT_NE(said("0.0.0.0:" + port, "").find(off), std::string::npos);
  EXPECT_EQ(said("0.0.0.0:" + port, "run-7").find("the plane stays off"), std::string::npos);
  EXPECT_EQ(said("127.0.0.1:" + port, "").find("the plane stays off"), std::string::npos);
}

// What Kubernetes makes of a service called "master": the job has its gate, the plane says why it is off.
TEST(PlaneJob, AMasterPortThatIsAUrlCostsThePlaneOnly) {
  Ranks ranks(2);
  ranks.start(
      0, {},
      {{"STEPGATE_RENDEZVOUS", ""}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "tcp://10.0.0.1:29500"}});
  ranks.url();
  ranks.ask("stop");
  const Outcome zero = ranks[0].finish(kSoon);
  EXPECT_EQ(zero.status, 0) << zero.out << zero.err;
  EXPECT_NE(zero.err.find("MASTER_PORT='tcp://10.0.0.1:29500'"), std::string::npos) << zero.err;
  EXPECT_NE(zero.err.find("the plane stays off: nobody says where rank 0 is"), std::string::npos) << zero.err;
}

TEST(PlaneJob, NobodyAsksNobodyListens) {
  Ranks ranks(2);
  ranks.start(0, {}, {{"STEPGATE_PLANE", "off"}});
  const std::string url = ranks.url();
  EXPECT_FALSE(metrics::test::has_family(page(url), "stepgate_job_ranks_up"));
  ranks.ask("stop");
  EXPECT_EQ(ranks[0].finish(kSoon).status, 0);
}

// By the target file that the rank leaves for Prometheus; "" at the deadline.
std::string url_by_file(const TemporaryFolder& folder, int rank) {
  const std::string ending = "_rank" + std::to_string(rank) + ".json";
  for (const auto begin = Clock::now(); Clock::now() - begin < kSoon;) {
    for (const auto& entry : std::filesystem::directory_iterator(folder.file(""))) {
      if (!entry.path().string().ends_with(ending)) continue;
      std::ifstream file(entry.path());
      return "http://" + nlohmann::json::parse(file)[0]["targets"][0].get<std::string>() + "/metrics";
    }
    std::this_thread::sleep_for(20ms);
  }
  return "";
}

// Who is who and how many there are is Open MPI's word alone: a job of two ranks that agree, and each other's
// figures on rank 0's page.
TEST(PlaneJob, TwoRanksUnderMpirun) {
  const TemporaryFolder folder, targets;
  const std::string port = std::to_string(plane::RendezvousServer("127.0.0.1", 0, "", 2).port());
  const std::string settings =
      " --mode enforce --nccl host --set STEPGATE_PLANE=on --set STEPGATE_LOG=info --set "
      "STEPGATE_METRICS_PORT=0" +
      (" --set STEPGATE_RENDEZVOUS=127.0.0.1:" + port) +
      " --set STEPGATE_METRICS_FILE_SD_DIR=" + targets.file("");
  Process job({"sh", "-c",
               "exec mpirun --allow-run-as-root --oversubscribe $(" + command_path() + " env mpirun --args" +
                   settings + ") -n 2 " PLANE_TEST_WORKER " " + folder.file("") + " together"});
  const std::string url = url_by_file(targets, 0);
  ASSERT_FALSE(url.empty());
  wait_for(url, "stepgate_job_ranks_up", 2);
  for (int r = 0; r < 2; ++r) {
    wait_for(url, last_step(r), [](double v) { return v > 2; });
    EXPECT_EQ(value_of(url, up(r)), 1);
    EXPECT_EQ(value_of(url, "stepgate_job_rank_enforcing{rank=\"" + std::to_string(r) + "\"}"), 1);
  }
  EXPECT_NE(url_by_file(targets, 1), url) << "rank 1 has a page of its own";
  std::ofstream(folder.file("stop")) << "\n";
  const Outcome o = job.finish(kSoon);
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_NE(o.err.find("enforce begins: 2 ranks"), std::string::npos) << o.out << o.err;
}

// The example job as a user starts it: the launcher brings port, run id and a safe UCX.
TEST(PlaneJob, CharlmUnderTheLauncher) {
  const TemporaryFolder folder;
  Process job({command_path(), "run",
               "-n",           "4",
               "--nccl",       "host",
               "--mode",       "enforce",
               "--grace",      "1",
               "--set",        "STEPGATE_PLANE=on",
               "--set",        "STEPGATE_PLANE_TIMEOUT=3",
               "--set",        "STEPGATE_ANOMALY_SILENT_SECONDS=4",
               "--set",        "STEPGATE_METRICS_PORT=0",
               "--set",        "STEPGATE_METRICS_FILE_SD_DIR=" + folder.file(""),
               "--",           charlm_path(),
               "--context",    "6",
               "--hidden",     "24",
               "--batch",      "8",
               "--steps",      "100000000"});
  const std::string url = url_by_file(folder, 0);
  ASSERT_FALSE(url.empty());
  wait_for(url, "stepgate_job_ranks_up", 4);
  wait_for(url, "stepgate_job_last_step{bound=\"lowest\"}", [](double v) { return v > 10; });

  // One rank stops: the others wait in their all-reduce for ever, and the page says whom for.
  const std::vector<std::string> children = lines_of(run({"pgrep", "-P", std::to_string(job.pid())}).out);
  ASSERT_EQ(children.size(), 4u);
  const pid_t third = std::stoi(children[2]);
  ASSERT_EQ(::kill(third, SIGSTOP), 0);
  wait_for(url, up(2), 0);
  wait_for(url, kSilent, 1);
  EXPECT_EQ(value_of(url, "stepgate_job_ranks_up"), 3) << "those who wait are no dead ones";
  ASSERT_EQ(::kill(third, SIGCONT), 0);
  wait_for(url, up(2), 1);
  const double before = value_of(url, "stepgate_job_last_step{bound=\"lowest\"}");
  wait_for(url, "stepgate_job_last_step{bound=\"lowest\"}", [before](double v) { return v > before; });

  ASSERT_EQ(::kill(std::stoi(children[3]), SIGKILL), 0);
  EXPECT_EQ(job.finish(kSoon).status, 128 + SIGKILL) << "the launcher ends the job, with or without a plane";
}

}  // namespace
}  // namespace stepgate::test

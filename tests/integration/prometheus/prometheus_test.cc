// A running job of four ranks, found by file discovery and scraped by Debian's Prometheus under the
// configuration that the documentation shows: its HTTP API gives every rank's scale, skips and offender.
#include "tests/integration/prometheus/prometheus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace stepgate::test {
namespace {

// Without what it says of a target file that went, as it should, between its listing and its reading.
std::string complaints(const std::string& words) {
  std::istringstream lines(words);
  std::string line, rest;
  while (std::getline(lines, line)) {
    const bool gone = line.find("Error reading file") != std::string::npos &&
                      line.find("no such file") != std::string::npos;
    if (!gone) rest += line + "\n";
  }
  return rest;
}

using Words = std::vector<std::string>;
using Labels = std::map<std::string, std::string>;

constexpr int kRanks = 4;
constexpr int kSteps = 40;
constexpr const char* kEverything = "{__name__=~\"stepgate_.*|up\"}";

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  EXPECT_NE(text.find(from), std::string::npos) << from << " is not in the documented configuration";
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Folders and files of one run.
struct Scene {
  TemporaryFolder folder;
  std::string targets = folder.file("targets");
  std::string records = folder.file("charlm");
  Scene() { std::filesystem::create_directory(targets); }

  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(folder.file(name)) << text;
    chmod(folder.file(name).c_str(), 0600);
    return folder.file(name);
  }
  void certificate() const {
    const Outcome made =
        run({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-days", "2", "-subj", "/CN=stepgate test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
             folder.file("page.key"), "-out", folder.file("page.crt")});
    ASSERT_EQ(made.status, 0) << made.err;
  }
  // The documented file, with this run's folder and at a pace that a test can wait for.
  std::string config(const std::string& name) const {
    std::string text = text_of(STEPGATE_TEST_SOURCE "/charts/stepgate/scrape/" + name);
    text = replaced(replaced(text, "15s", "1s"), "10s", "1s");
    return replaced(text, "/run/stepgate/targets", targets);
  }
};

// The job: its last step and one before it meet a NaN on rank 2; then it stays until told to end.
Words job_words(const Scene& scene, const Words& settings) {
  Words words = {command_path(), "run",
                 "-n",           std::to_string(kRanks),
                 "--nccl",       "host",
                 "--mode",       "enforce",
                 "--set",        "STEPGATE_METRICS_PORT=0",
                 "--set",        "STEPGATE_METRICS_FILE_SD_DIR=" + scene.targets,
                 "--set",        "STEPGATE_JOB_NAME=nightly \"7b\"",
                 "--set",        "STEPGATE_RUN_ID=run-7"};
  for (const std::string& setting : settings) {
    words.push_back("--set");
    words.push_back(setting);
  }
  const std::string last = std::to_string(kSteps);
  for (const char* word :
       {"--", "charlm", "--context", "6", "--hidden", "24", "--batch", "8", "--steps", last.c_str(),
        "--initial-scale", "1024", "--interval", "1000", "--inject", "2:20:hidden2.weight:nan", "--inject"}) {
    words.push_back(word == std::string("charlm") ? charlm_path() : word);
  }
  words.insert(words.end(),
               {"2:" + last + ":hidden1.weight:nan", "--json", scene.records, "--linger", "120"});
  return words;
}

std::string host() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

// "" when Prometheus knows of rank `rank` what it must, else the first thing that is not so.
std::string missing(const std::vector<Scraped>& all, int rank) {
  const Labels who = {{"rank", std::to_string(rank)},
                      {"local_rank", std::to_string(rank)},
                      {"host", host()},
                      {"job_name", "nightly \"7b\""},
                      {"run_id", "run-7"},
                      {"job", "stepgate"}};
  struct Wanted {
    const char* name;
    Labels more;
    double value;
  };
  const double seen = rank == 2 ? 1 : 0;
  for (const Wanted& w :
       std::initializer_list<Wanted>{{"up", {}, 1},
                                     {"stepgate_steps_total", {}, kSteps},
                                     {"stepgate_steps_applied_total", {}, kSteps - 2},
                                     {"stepgate_loss_scale", {}, 256},
                                     {"stepgate_steps_skipped_total", {{"reason", "nan"}}, 2},
                                     {"stepgate_steps_skipped_total", {{"reason", "inf"}}, 0},
                                     {"stepgate_steps_skipped_total", {{"reason", "veto"}}, 0},
                                     {"stepgate_steps_skipped_total", {{"reason", "norm"}}, 0},
                                     {"stepgate_offending_rank", {}, 2},
                                     {"stepgate_nonfinite_elements_total",
                                      {{"kind", "nan"}, {"phase", "local"}, {"bucket", "hidden1"}},
                                      seen},
                                     {"stepgate_nonfinite_elements_total",
                                      {{"kind", "nan"}, {"phase", "reduced"}, {"bucket", "hidden1"}},
                                      1},
                                     {"stepgate_enforcing", {}, 1}}) {
    Labels labels = who;
    labels.insert(w.more.begin(), w.more.end());
    const double value = value_of(all, w.name, labels);
    if (value != w.value) {
      return "rank " + std::to_string(rank) + ": " + w.name + " is " + std::to_string(value) + ", not " +
             std::to_string(w.value);
    }
  }
  return "";
}

std::string missing_of_any(const Prometheus& prometheus) {
  const auto all = prometheus.query(kEverything);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::string what = missing(all, rank);
    if (!what.empty()) return what;
  }
  return "";
}

// Scrapes the job until all is there, and ends it.
void scrape(Prometheus& prometheus, const Scene& scene, const Words& settings) {
  Process job(job_words(scene, settings));
  std::string what;
  const bool all_there = eventually([&] {
    what = missing_of_any(prometheus);
    return what.empty() || job.ended();
  });
  std::ofstream(scene.records + ".done") << "\n";
  const Outcome outcome = job.finish();
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(all_there && what.empty()) << what << "\n" << outcome.err;
  EXPECT_TRUE(std::filesystem::is_empty(scene.targets)) << "a rank has left its target file";
  EXPECT_TRUE(eventually([&] { return prometheus.query("up").empty(); }))
      << "targets of a job that has ended";
  EXPECT_EQ(outcome.err.find("sesame"), std::string::npos) << "the password is in the log";
  EXPECT_EQ(complaints(prometheus.last_words()), "");
}

class PrometheusScrapes : public testing::Test {
 protected:
  void SetUp() override {
    if (!prometheus_is_installed()) GTEST_SKIP() << "prometheus is not installed (Debian package prometheus)";
  }
};

TEST_F(PrometheusScrapes, FourRanks) {
  const Scene scene;
  Prometheus prometheus(scene.config("plain.yaml"));
  scrape(prometheus, scene, {});
  EXPECT_TRUE(eventually([&] { return prometheus.query("up").empty(); }))
      << "targets of a job that has ended";
  EXPECT_EQ(prometheus.last_words(), "");
}

TEST_F(PrometheusScrapes, FourRanksWithPasswordAndTls) {
  const Scene scene;
  scene.certificate();
  std::string config = scene.config("secured.yaml");
  config = replaced(config, "/etc/prometheus/stepgate-password", scene.put("password", "open sesame\n"));
  config = replaced(config, "/etc/prometheus/stepgate-ca.pem", scene.folder.file("page.crt"));
  Prometheus prometheus(config);
  scrape(prometheus, scene,
         {"STEPGATE_METRICS_AUTH_FILE=" + scene.put("auth", "prometheus:open sesame\n"),
          "STEPGATE_METRICS_TLS_CERTIFICATE=" + scene.folder.file("page.crt"),
          "STEPGATE_METRICS_TLS_KEY=" + scene.folder.file("page.key")});
}

TEST_F(PrometheusScrapes, APasswordThatIsWrongGivesNothing) {
  const Scene scene;
  Prometheus prometheus(scene.config("plain.yaml"));
  Process job(
      job_words(scene, {"STEPGATE_METRICS_AUTH_FILE=" + scene.put("auth", "prometheus:open sesame\n")}));
  EXPECT_TRUE(eventually([&] { return prometheus.query("up == 0").size() == kRanks || job.ended(); }));
  EXPECT_TRUE(prometheus.query("{__name__=~\"stepgate_.*\"}").empty());
  std::ofstream(scene.records + ".done") << "\n";
  EXPECT_EQ(job.finish().status, 0);
}

// What a rank of such a job says, and where its numbers are.
TEST(ExpositionOfAJob, ACertificateThatIsNoGoodCostsThePageAndNothingElse) {
  const Scene scene;
  const std::string garbage = scene.put("garbage.pem", "no certificate\n");
  const Outcome outcome = run(job_words(scene, {"STEPGATE_METRICS_TLS_CERTIFICATE=" + garbage,
                                                "STEPGATE_METRICS_TEXTFILE_DIR=" + scene.targets}) +
                              Words{"--linger", "0"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("'" + garbage + "' holds no PEM certificate"), std::string::npos) << outcome.err;
  int pages = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scene.targets)) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name.starts_with("stepgate_nightly--7b-_run-7_rank") && name.ends_with(".prom")) << name;
    const std::string page = text_of(entry.path().string());
    EXPECT_NE(page.find("stepgate_steps_total{rank=\"" + name.substr(name.size() - 6, 1) + "\",local_rank="),
              std::string::npos)
        << page;
    EXPECT_NE(page.find("job_name=\"nightly \\\"7b\\\"\",run_id=\"run-7\"} 40\n"), std::string::npos) << page;
    ++pages;
  }
  EXPECT_EQ(pages, kRanks);
}

}  // namespace
}  // namespace stepgate::test

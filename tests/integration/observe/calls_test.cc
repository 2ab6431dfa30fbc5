// What reaches NCCL of an observed job: its own calls, with its own arguments, in its own order, and besides
// them a few questions. The list is one that an NCCL which records everything wrote.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/integration/process.h"
#include "tests/metrics/page_text.h"

namespace stepgate::test {
namespace {

using Variables = std::map<std::string, std::string>;
using Lines = std::vector<std::string>;

// They tell of a communicator or of a release, and nothing comes of them.
const std::set<std::string> kQuestions = {"GetVersion", "CommCount", "CommUserRank"};

std::string function_of(const std::string& line) {
  return line.substr(0, line.find(','));
}

struct Recorded {
  Lines calls;
  Lines questions;
  std::string results;
  std::string scanned;  // all-reduces that the plugin looked at; "" where there is none
};

Recorded run_recorded(const Variables& more) {
  const TemporaryFolder folder;
  Variables v = {{"LD_LIBRARY_PATH", OBSERVE_TEST_RECORDER},
                 {"RECORDING_NCCL", folder.file("calls")},
                 // No page can be served so, and what it says at the end is left as a file.
                 {"STEPGATE_METRICS_AUTH_FILE", folder.file("none")},
                 {"STEPGATE_LOG", "off"},
                 {"STEPGATE_METRICS_TEXTFILE_DIR", folder.file("")}};
  for (const auto& [name, value] : more) v[name] = value;
  const Outcome o = run({OBSERVE_TEST_RECORDED}, v);
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(o.err, "");
  Recorded r;
  r.results = o.out;
  for (const std::string& line : lines_of(metrics::test::read_file(folder.file("calls")))) {
    (kQuestions.contains(function_of(line)) ? r.questions : r.calls).push_back(line);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder.file(""))) {
    if (entry.path().extension() != ".prom") continue;
    for (const std::string& line : lines_of(metrics::test::read_file(entry.path()))) {
      const bool it = line.starts_with("stepgate_reductions_total{") &&
                      line.find("handling=\"scanned\",op=\"all_reduce\"") != std::string::npos;
      if (it) r.scanned = line.substr(line.rfind(' ') + 1);
    }
  }
  return r;
}

// Hooked functions, without those that only ask.
std::set<std::string> hooked() {
  std::set<std::string> names;
  for (const std::string& line :
       lines_of(run({"nm", "-D", "--defined-only", STEPGATE_TEST_LIB "/libstepgate.so"}).out)) {
    const std::string name = line.substr(line.rfind(' ') + 1);
    if (name.starts_with("nccl") && !kQuestions.contains(name.substr(4))) names.insert(name.substr(4));
  }
  return names;
}

void expect_same(const Lines& want, const Lines& got) {
  const auto [w, g] = std::mismatch(want.begin(), want.end(), got.begin(), got.end());
  EXPECT_TRUE(w == want.end() && g == got.end())
      << "call " << w - want.begin() << " of " << want.size() << ": the job's own is '"
      << (w == want.end() ? "none" : *w) << "', with the plugin '" << (g == got.end() ? "none" : *g) << "'";
}

TEST(Observe, NcclGetsTheJobsOwnCallsAndNoOthers) {
  const Recorded alone = run_recorded({});
  std::set<std::string> called;
  for (const std::string& line : alone.calls) called.insert(function_of(line));
  const std::set<std::string> hooks = hooked();
  EXPECT_GT(hooks.size(), 25u);
  for (const std::string& name : hooks) EXPECT_TRUE(called.contains(name)) << name << " is not in the job";
  EXPECT_TRUE(alone.questions.empty()) << alone.questions.front();
  for (const std::string& line : alone.calls) EXPECT_EQ(line.find("unknown"), std::string::npos) << line;

  const std::string preload = STEPGATE_TEST_LIB "/libstepgate.so";
  for (const char* attribution : {"off", "on"}) {
    const Recorded observed = run_recorded({{"LD_PRELOAD", preload}, {"STEPGATE_ATTRIBUTION", attribution}});
    expect_same(alone.calls, observed.calls);
    EXPECT_EQ(observed.results, alone.results);
    // It was there, and looked: 3 of 5 all-reduces in each of 10 rounds, and 5 that were in progress.
    EXPECT_EQ(observed.scanned, "35");
    EXPECT_FALSE(observed.questions.empty()) << "the test sees what the plugin itself asks for";
  }
}

}  // namespace
}  // namespace stepgate::test

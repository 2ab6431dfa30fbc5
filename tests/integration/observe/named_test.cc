// Which communicators' reductions count for an observer, by the name that the job gave them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/process.h"

namespace stepgate::test {
namespace {

// All-reduces that were scanned, by the last page of a job with this pattern.
int scanned(const std::string& pattern) {
  TemporaryFolder folder;
  Process job({NAMED_TEST_JOB}, {{"LD_LIBRARY_PATH", STEPGATE_TEST_LIB "/hostnccl"},
                                 {"LD_PRELOAD", STEPGATE_TEST_LIB "/libstepgate.so"},
                                 {"STEPGATE_OBSERVE_COMM", pattern},
                                 {"STEPGATE_LOG", "off"},
                                 // Nobody's address: the page becomes a file.
                                 {"STEPGATE_METRICS_ADDR", "203.0.113.1"},
                                 {"STEPGATE_METRICS_TEXTFILE_DIR", folder.file("")}});
  const Outcome o = job.finish();
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(o.out, "the handle is late\n");
  for (const auto& entry : std::filesystem::directory_iterator(folder.file(""))) {
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("stepgate_reductions_total{") && line.find("\"scanned\"") != std::string::npos &&
          line.find("\"all_reduce\"") != std::string::npos) {
        return std::stoi(line.substr(line.rfind(' ')));
      }
    }
  }
  ADD_FAILURE() << "no page tells of reductions";
  return -1;
}

TEST(ObserveNamed, OnlyCommunicatorsOfTheNameCount) {
  constexpr int kUnnamed = 1, kData = 2, kTensor = 4, kChild = 8, kNamelessChild = 16, kLate = 32, kOld = 64;
  EXPECT_EQ(scanned(""), kUnnamed + kData + kTensor + kChild + kNamelessChild + kLate + kOld);
  EXPECT_EQ(scanned("data"), kData + kChild) << "a child without a configuration has its parent's name";
  EXPECT_EQ(scanned("data*"), kData + kChild + kLate) << "a name waits for the handle that a group makes";
  EXPECT_EQ(scanned("*"), kData + kTensor + kChild + kLate);
  EXPECT_EQ(scanned("never*"), 0) << "an older configuration ends before the name";
}

}  // namespace
}  // namespace stepgate::test

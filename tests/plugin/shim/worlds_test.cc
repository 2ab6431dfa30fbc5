// Jobs with several communicators, and with fewer ranks than they had, through the preloaded plugin.
#include <gtest/gtest.h>

#include "tests/integration/process.h"

namespace stepgate::test {
namespace {

std::vector<std::string> ranks_of(const std::string& mode) {
  const std::string runtime = WORLDS_TEST_RUNTIME;
  const std::string shim = STEPGATE_TEST_LIB "/libstepgate.so";
  const Outcome o =
      run({WORLDS_TEST_WORKER, mode}, {{"LD_PRELOAD", runtime.empty() ? shim : runtime + " " + shim},
                                       {"STEPGATE_MODE", "enforce"},
                                       {"STEPGATE_METRICS", "off"},
                                       {"STEPGATE_HOSTNCCL_TIMEOUT", "40"}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  std::vector<std::string> lines = lines_of(o.out);
  std::erase_if(lines, [](const std::string& l) { return l.find(" UCX ") != std::string::npos; });  // its log
  EXPECT_EQ(lines.size(), 4u) << o.out << o.err;
  return lines;
}

TEST(Worlds, RowsAndColumnsDecideTogether) {
  int rank = 0;
  for (const std::string& line : ranks_of("mesh")) {
    EXPECT_EQ(line, std::to_string(rank++) + ": ok skip 0 offender -3 norm 4; ok skip 1 offender 3 norm 0; ");
  }
}

TEST(Worlds, TheRestOfAShrunkCommunicatorGoesOn) {
  int rank = 0;
  for (const std::string& line : ranks_of("shrink")) {
    std::string want = std::to_string(rank) + ": ok skip 0 offender -3 norm 4; ";
    if (rank != 2) {
      want += "undecided skip 1 offender -3 norm 0; ok skip 0 offender -3 norm 3; ";
      want += "ok skip 1 offender 2 norm 0; ";  // rank 3 of the old world
    }
    EXPECT_EQ(line, want);
    ++rank;
  }
}

}  // namespace
}  // namespace stepgate::test

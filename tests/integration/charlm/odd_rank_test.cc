// One rank whose plugin is off, by its mode or by a setting that it refused: nobody's job may suffer. The
// others' vote is a collective, and it must not meet that rank's next gradient.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/integration/charlm/charlm_runs.h"

namespace stepgate::test {
namespace {

using Words = std::vector<std::string>;

struct OddRank {
  const char* name;
  const char* setting;  // of rank 1 alone
  const char* said;     // why it does not take part
};

class OddRankOf : public testing::TestWithParam<OddRank> {};

TEST_P(OddRankOf, IsRefusedByAllAndTheJobTrainsOn) {
  const TemporaryFolder folder;
  const std::string script = folder.file("rank");
  std::ofstream(script) << "#!/bin/sh\nif [ \"$RANK\" = 1 ]; then export '" << GetParam().setting
                        << "'; fi\nexec '" << charlm_path() << "' \"$@\"\n";
  ASSERT_EQ(chmod(script.c_str(), 0755), 0);
  const CharlmRun result =
      run_charlm({.ranks = 3,
                  .options = small_model() + Words{"--strategy", "zero1", "--steps", "20"},
                  .program = script});
  const Outcome& o = result.outcome;
  ASSERT_EQ(o.status, 0) << o.out << o.err;
  for (const auto& rank : result.run.ranks) {
    EXPECT_FALSE(rank.gated) << rank.rank;
    EXPECT_EQ(rank.steps.size(), 20u) << rank.rank;
  }
  EXPECT_NE(o.err.find("1 of 3 ranks vote against it"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find(std::string("; this rank: ") + GetParam().said), std::string::npos) << o.err;
}

INSTANTIATE_TEST_SUITE_P(All, OddRankOf,
                         testing::Values(OddRank{"Off", "STEPGATE_MODE=off", "STEPGATE_MODE is off"},
                                         OddRank{"BadValue", "STEPGATE_RULE=amp",
                                                 "STEPGATE_RULE='amp' is refused"},
                                         OddRank{"NoConfigurationFile", "STEPGATE_CONFIG=/no/such/file",
                                                 "STEPGATE_CONFIG='/no/such/file'"}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace stepgate::test

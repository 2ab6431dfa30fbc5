// Who this process is under each launcher, and what happens when two of them disagree.
#include "plugin/core/identity.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "tests/plugin/variables.h"

namespace stepgate::gate {
namespace {

JobIdentity read(const Variables& variables) {
  JobIdentity identity;
  std::string error;
  EXPECT_TRUE(read_identity(environment(variables), &identity, &error)) << error;
  return identity;
}

std::string refusal(const Variables& variables) {
  JobIdentity identity;
  std::string error;
  EXPECT_FALSE(read_identity(environment(variables), &identity, &error));
  return error;
}

Variables operator+(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

// Rank 5 of 8, 1 of 4 on its machine, as each launcher says it.
const Variables kTorchrun = {
    {"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_SIZE", "8"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables kSlurm = {{"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}};
const Variables kPmix = {{"PMIX_RANK", "5"}, {"PMIX_NAMESPACE", "prterun-a-1@1"}};

void expect_five_of_eight(const JobIdentity& i, const std::string& launcher) {
  EXPECT_EQ(i.rank, 5u);
  EXPECT_EQ(i.world, 8u);
  EXPECT_EQ(i.local_rank, 1u);
  EXPECT_EQ(i.local_world, 4u);
  EXPECT_EQ(i.launcher, launcher);
  EXPECT_TRUE(i.doubts.empty()) << i.doubts.front();
}

TEST(Identity, EachLauncherIsUnderstood) {
  expect_five_of_eight(read(kTorchrun), "torchrun");
  expect_five_of_eight(read(kOpenMpi), "Open MPI");
  expect_five_of_eight(read(kSlurm), "Slurm");
}

TEST(Identity, LaunchersThatAgreeAreNoContradiction) {
  expect_five_of_eight(read(kTorchrun + kOpenMpi + kSlurm + kPmix), "torchrun");
  expect_five_of_eight(read(kOpenMpi + kPmix + kSlurm), "Open MPI");
}

// srun --mpi=pmix: PMIx gives the rank and no size, Slurm gives all.
TEST(Identity, WhatOneDoesNotSayIsTakenFromAnotherThatGivesTheSameRank) {
  expect_five_of_eight(read(kPmix + kSlurm), "PMIx");
}

TEST(Identity, WhatAnotherSaysOfAnotherRankIsNotTaken) {
  const JobIdentity i = read({{"PMIX_RANK", "0"}, {"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}});
  EXPECT_EQ(i.rank, 0u);
  EXPECT_EQ(i.world, 1u) << "rank 0 of PMIx is not known to be one of Slurm's 8";
}

// A batch script often exports the size alone and lets the launcher number the ranks.
TEST(Identity, ASizeWithoutARankGoesToTheLauncherThatGivesOne) {
  Variables v = kSlurm;
  v["WORLD_SIZE"] = "8";
  expect_five_of_eight(read(v), "Slurm");
  v["WORLD_SIZE"] = "4";
  const JobIdentity i = read(v);
  EXPECT_EQ(i.world, 8u);
  ASSERT_EQ(i.doubts.size(), 1u);
  EXPECT_EQ(i.doubts[0], "SLURM_NTASKS=8 of Slurm holds, though torchrun says WORLD_SIZE=4");
}

// torchrun in each of two srun tasks: Slurm counts machines, not ranks.
TEST(Identity, ALevelAboveIsNoContradiction) {
  expect_five_of_eight(read(kTorchrun + Variables{{"SLURM_PROCID", "1"},
                                                  {"SLURM_NTASKS", "2"},
                                                  {"SLURM_LOCALID", "0"},
                                                  {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}}),
                       "torchrun");
}

// A sweep: jobs of one rank each, under one srun that counts them all.
TEST(Identity, AJobOfOneRankAmongOthersSaysSoItself) {
  const Variables own = {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}};
  const JobIdentity i = read(own + kSlurm);
  EXPECT_EQ(i.rank, 0u);
  EXPECT_EQ(i.world, 1u);
  EXPECT_EQ(i.local_rank, 1u);
  EXPECT_EQ(i.local_world, 4u);
  ASSERT_EQ(i.doubts.size(), 1u);
  EXPECT_EQ(i.doubts[0], "WORLD_SIZE=1 of torchrun holds, though Slurm says SLURM_NTASKS=8");
}

TEST(Identity, ContradictionsAreToldAndTheFirstHolds) {
  struct Case {
    Variables other;
    const char* doubt;
  };
  const Case cases[] = {
      {{{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "8"}},
       "RANK=5 of torchrun holds, though Open MPI says OMPI_COMM_WORLD_RANK=3"},
      {{{"PMIX_RANK", "4"}}, "RANK=5 of torchrun holds, though PMIx says PMIX_RANK=4"},
      {{{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "16"}},
       "WORLD_SIZE=8 of torchrun holds, though Slurm says SLURM_NTASKS=16"},
      {{{"SLURM_PROCID", "x"}, {"SLURM_NTASKS", "8"}},
       "RANK=5 of torchrun holds, though Slurm says SLURM_PROCID=x"},
      {{{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "2"}},
       "LOCAL_RANK=1 of torchrun holds, though Slurm says SLURM_LOCALID=2"},
  };
  for (const Case& c : cases) {
    JobIdentity i = read(kTorchrun + c.other);
    ASSERT_EQ(i.doubts.size(), 1u) << c.doubt;
    EXPECT_EQ(i.doubts[0], c.doubt);
    i.doubts.clear();
    expect_five_of_eight(i, "torchrun");
  }
}

TEST(Identity, NobodySaysAnything) {
  const JobIdentity i = read({});
  EXPECT_EQ(i.rank, 0u);
  EXPECT_EQ(i.world, 1u);
  EXPECT_EQ(i.launcher, "");
  EXPECT_EQ(i.run_id, "");
  EXPECT_FALSE(i.slurm_restarts.has_value());
}

TEST(Identity, ARankOutsideOfItsWorldIsRefused) {
  EXPECT_EQ(refusal({{"SLURM_PROCID", "8"}, {"SLURM_NTASKS", "8"}}),
            "SLURM_PROCID='8' is refused; allowed: 0 to SLURM_NTASKS - 1 = 7");
}

// PMIx gives no size. A refusal would reach all ranks but the first, which would then wait for the others.
TEST(Identity, ARankAmongAnUnknownNumberIsPassedOver) {
  for (const Variables& v : {Variables{{"PMIX_RANK", "2"}},
                             Variables{{"PMIX_RANK", "2"}, {"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}}}) {
    const JobIdentity i = read(v);
    EXPECT_EQ(i.rank, 0u);
    EXPECT_EQ(i.world, 1u);
    EXPECT_EQ(i.launcher, "");
    ASSERT_EQ(i.doubts.size(), 1u);
    EXPECT_EQ(i.doubts[0], "PMIX_RANK=2 of PMIx is passed over: nobody says how many ranks there are");
  }
}

TEST(Identity, RunIdByPrecedence) {
  Variables v = {{"PMIX_NAMESPACE", "space"}};
  EXPECT_EQ(read(v).run_id, "space");
  v["SLURM_JOB_ID"] = "77";
  EXPECT_EQ(read(v).run_id, "77");
  v["SLURM_STEP_ID"] = "3";
  EXPECT_EQ(read(v).run_id, "77.3");
  v["TORCHELASTIC_RUN_ID"] = "none";
  EXPECT_EQ(read(v).run_id, "77.3") << "torchrun's default names no run";
  v["TORCHELASTIC_RUN_ID"] = "elastic";
  EXPECT_EQ(read(v).run_id, "elastic");
  v["STEPGATE_RUN_ID"] = "mine";
  EXPECT_EQ(read(v).run_id, "mine");
}

// A restart of either kind is another run to meet in; so is another id.
TEST(Identity, TheRunKeyTellsRestartsApart) {
  std::set<std::string> keys;
  for (const Variables& v :
       {Variables{}, Variables{{"STEPGATE_RUN_ID", "a"}},
        Variables{{"STEPGATE_RUN_ID", "a"}, {"TORCHELASTIC_RESTART_COUNT", "0"}},
        Variables{{"STEPGATE_RUN_ID", "a"}, {"TORCHELASTIC_RESTART_COUNT", "1"}},
        Variables{{"STEPGATE_RUN_ID", "a"}, {"SLURM_RESTART_COUNT", "1"}},
        Variables{
            {"STEPGATE_RUN_ID", "a"}, {"TORCHELASTIC_RESTART_COUNT", "1"}, {"SLURM_RESTART_COUNT", "1"}}}) {
    EXPECT_TRUE(keys.insert(run_key(read(v))).second);
  }
}

// The text of identity.cc: what looks like a variable's name there is in identity_names().
TEST(Identity, NamesEveryVariableThatItReads) {
  std::ifstream file("plugin/core/identity.cc");
  ASSERT_TRUE(file.good()) << "run from the repository's root";
  std::stringstream text;
  text << file.rdbuf();
  std::set<std::string> found, named;
  const std::string source = text.str();
  for (std::size_t at = source.find('"'); at != std::string::npos; at = source.find('"', at + 1)) {
    const std::size_t end = source.find('"', at + 1);
    const std::string word = source.substr(at + 1, end - at - 1);
    if (word.size() > 3 && word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == std::string::npos) {
      found.insert(word);
    }
    at = end;
  }
  for (const char* name : identity_names()) named.insert(name);
  EXPECT_EQ(found, named);
}

}  // namespace
}  // namespace stepgate::gate

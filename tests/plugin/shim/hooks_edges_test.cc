// What NCCL's releases differ in, and what only some jobs call, through the hooks: communicators out of
// others, functions that the running NCCL lacks, handles that are no gates.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"
#include "collectives/nccl_abi/nccl_structs.h"
#include "stepgate/stepgate.h"
#include "tests/plugin/shim/hooks_job.h"
#include "tests/plugin/whole_range.h"

extern "C" ncclResult_t send_through_old_nccl(void);
extern "C" ncclResult_t receive_through_old_nccl(void);

namespace stepgate::test {
namespace {

// The shim offers symbols that the host NCCL lacks: a fixed answer, said once for each.
TEST(Hooks, SymbolThatTheRunningNcclLacks) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(send_through_old_nccl(), ncclInvalidUsage);
    EXPECT_EQ(receive_through_old_nccl(), ncclInvalidUsage);
  }
  const std::string told = testing::internal::GetCapturedStderr();
  for (const char* name : {"ncclSend", "ncclRecv"}) {
    EXPECT_NE(told.find(name), std::string::npos) << told;
    EXPECT_EQ(told.find(name), told.rfind(name)) << told;
  }
}

ncclComm_t join_without_blocking(int rank, int world, const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const ncclResult_t made = ncclCommInitRankConfig(&comm, world, id, rank, &config);
  EXPECT_TRUE(made == ncclSuccess || made == ncclInProgress) << ncclGetLastError(nullptr);
  return comm;
}

void settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess) << ncclGetLastError(comm);
}

// How much an all-gather fills depends on the number of ranks, which a communicator does not tell while its
// first call is under way.
TEST(Hooks, AnAllGatherThatDoesNotBlockFillsEveryBlock) {
  setenv("STEPGATE_HOSTNCCL_LAUNCH_DELAY_US", "200000", 1);
  const ncclUniqueId second = fresh_id();
  run(2, [&](Job& j) {
    ncclComm_t gathering = join_without_blocking(j.rank(), 2, second);
    settle(gathering);
    std::vector<float> all = {1, 1, 1, 1}, mine = {1, j.rank() == 1 ? NAN : 1.0f};
    const stepgate_segment later{nullptr, all.data() + 2, 2};  // rank 1's block only
    const stepgate_range range = whole_range("later", later);
    std::uint32_t id = 0;
    ASSERT_EQ(stepgate_declare_range(j.gate(), &range, &id), STEPGATE_OK) << stepgate_last_error();
    j.activate();
    j.begin();
    j.all_reduce(all);
    const std::string before = ncclGetLastError(gathering);
    ASSERT_EQ(ncclAllGather(mine.data(), all.data(), 2, ncclFloat32, gathering, nullptr), ncclInProgress);
    EXPECT_EQ(ncclGetLastError(gathering), before) << "the job's own last error";
    settle(gathering);
    EXPECT_EQ(j.end().reason, STEPGATE_REASON_NAN);
    EXPECT_EQ(ncclCommDestroy(gathering), ncclSuccess);
  });
  unsetenv("STEPGATE_HOSTNCCL_LAUNCH_DELAY_US");
}

// The program's communicators come out of one another; the gate's group is the first.
TEST(Hooks, SplitCommunicatorIsWatched) {
  run(2, [](Job& j) {
    std::vector<float> bucket = {3, 4};
    j.declare("bucket", bucket, j.rank() == 0);
    j.activate();
    ncclComm_t child = nullptr;
    ASSERT_EQ(ncclCommSplit(j.comm(), 0, -j.rank(), &child, nullptr), ncclSuccess)
        << ncclGetLastError(nullptr);
    j.begin();
    ASSERT_EQ(
        ncclAllReduce(bucket.data(), bucket.data(), bucket.size(), ncclFloat32, ncclSum, child, nullptr),
        ncclSuccess);
    bucket = {0, 0};  // judged at the reduction, not here
    EXPECT_EQ(j.end().norm, 5 * j.world());
    EXPECT_EQ(ncclCommDestroy(child), ncclSuccess);
  });
}

TEST(Hooks, HandlesThatAreNoGatesAreRefused) {
  int foreign = 0;
  auto* gate = reinterpret_cast<stepgate_gate*>(&foreign);
  EXPECT_EQ(stepgate_step_begin(gate, nullptr), STEPGATE_INVALID);
  EXPECT_NE(std::string(stepgate_last_error()).find("not a live gate"), std::string::npos);
  EXPECT_EQ(stepgate_step_begin(nullptr, nullptr), STEPGATE_INVALID);
  EXPECT_NE(std::string(stepgate_last_error()).find("NULL"), std::string::npos);
}

// Two gates over one memory would multiply it twice, or one would measure what the other has multiplied.
TEST(Hooks, MemoryThatAGateMultipliesIsItsOwn) {
  std::vector<float> bucket(8, 1.0f), other(8, 1.0f);
  const auto gate_of = [](const char* name, const char* unscale) {
    stepgate_gate_config config{};
    config.size = sizeof config;
    config.name = name;
    config.unscale = unscale;
    stepgate_gate* gate = nullptr;
    EXPECT_EQ(stepgate_gate_create(&config, &gate), STEPGATE_OK) << stepgate_last_error();
    return gate;
  };
  const auto declare = [](stepgate_gate* gate, std::vector<float>& data) {
    const stepgate_segment segment{nullptr, data.data(), data.size()};
    const stepgate_range range = whole_range("bucket", segment);
    std::uint32_t id = 0;
    return stepgate_declare_range(gate, &range, &id);
  };
  stepgate_gate* const multiplies = gate_of("multiplies", "in_hook");
  stepgate_gate* const second = gate_of("second", "in_hook");
  stepgate_gate* const measures = gate_of("measures", "deferred");
  stepgate_gate* const looks = gate_of("looks", "deferred");
  EXPECT_EQ(declare(multiplies, bucket), STEPGATE_OK) << stepgate_last_error();
  for (stepgate_gate* gate : {second, measures}) {
    EXPECT_EQ(declare(gate, bucket), STEPGATE_INVALID);
    EXPECT_NE(std::string(stepgate_last_error()).find("gate 'multiplies' has declared this memory"),
              std::string::npos)
        << stepgate_last_error();
  }
  EXPECT_EQ(declare(measures, other), STEPGATE_OK) << stepgate_last_error();
  EXPECT_EQ(declare(second, other), STEPGATE_INVALID) << "whichever came first";
  EXPECT_EQ(declare(looks, other), STEPGATE_OK) << "nobody multiplies it: " << stepgate_last_error();
  for (stepgate_gate* gate : {multiplies, second, measures, looks}) stepgate_gate_destroy(gate);
}

}  // namespace
}  // namespace stepgate::test

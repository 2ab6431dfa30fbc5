// What NCCL's releases differ in, and what only some jobs call, through the hooks: communicators out of
// others, functions that the running NCCL lacks, handles that are no gates.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"
#include "stepgate/stepgate.h"
#include "tests/plugin/shim/hooks_job.h"
#include "tests/plugin/whole_range.h"

extern "C" ncclResult_t send_through_old_nccl(void);

namespace stepgate::test {
namespace {

// The shim offers symbols that the host NCCL lacks: a fixed answer, said once.
TEST(Hooks, SymbolThatTheRunningNcclLacks) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(send_through_old_nccl(), ncclInvalidUsage);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("ncclSend"), std::string::npos) << told;
  EXPECT_EQ(told.find("ncclSend"), told.rfind("ncclSend")) << told;
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

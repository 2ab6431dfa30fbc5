// The optimizer's kernels: the host's bits on applied steps, nothing at all on skipped ones.
#include "integration/examples/charlm/device/device_adam.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "tests/integration/charlm/device/adam_job.h"

namespace stepgate::test {
namespace {

using charlm::Adam;
using charlm::GradType;

struct Variant {
  const char* name;
  AdamJobOptions options;
};

void PrintTo(const Variant& c, std::ostream* out) {
  *out << c.name;
}

class CharlmDeviceAdam : public testing::TestWithParam<Variant> {
 protected:
  StandIn standin_;
};

TEST_P(CharlmDeviceAdam, MakesTheHostsBits) {
  AdamJob job(GetParam().options);
  job.expect_equal();
  for (int i = 0; i < 20; ++i) {
    // Powers of two, as scales are, and what clipping makes of them.
    job.step(false, i % 2 == 0 ? 1024.0f : 1024.0f / 0.37f);
    job.expect_equal();
  }
}

TEST_P(CharlmDeviceAdam, SkippedStepChangesNothing) {
  AdamJob job(GetParam().options);
  job.step(true, 65536);  // before there was any update
  job.expect_equal();
  for (int i = 0; i < 4; ++i) job.step(false, 256);
  const Adam::State before = job.device_state();
  for (int i = 0; i < 3; ++i) job.step(true, 256);
  const Adam::State after = job.device_state();
  EXPECT_EQ(after.updates, 4u);
  EXPECT_EQ(different(after.masters, before.masters), 0u);
  EXPECT_EQ(different(after.first_moments, before.first_moments), 0u);
  EXPECT_EQ(different(after.second_moments, before.second_moments), 0u);
  job.step(false, 256);
  job.expect_equal();
}

TEST_P(CharlmDeviceAdam, HostWaitsForNothingInAStep) {
  AdamJob job(GetParam().options);
  job.step(false, 256);
  job.device().synchronize();
  standin_.control().forget_calls();
  job.step(false, 256);
  job.step(true, 256);
  for (const standin::CallRecord& call : standin_.calls()) EXPECT_EQ(call.waited, 0) << call.name;
  EXPECT_GT(standin_.calls().size(), 0u);
}

std::vector<Variant> variants() {
  return {{"fp32", {}},
          {"fp16", {GradType::kFp16, 1, false}},
          {"bf16", {GradType::kBf16, 1, false}},
          {"sum_of_three", {GradType::kFp32, 3, false}},
          {"captured", {GradType::kFp32, 1, true}},
          {"captured_fp16_sum_of_two", {GradType::kFp16, 2, true}}};
}

INSTANTIATE_TEST_SUITE_P(All, CharlmDeviceAdam, testing::ValuesIn(variants()),
                         [](const auto& suite) { return std::string(suite.param.name); });

TEST(CharlmDeviceAdamState, GoesOnFromACheckpointOfEitherSide) {
  StandIn standin;
  AdamJob job({});
  for (int i = 0; i < 5; ++i) job.step(false, 64);
  Adam::State state = job.device_state();
  for (const std::uint64_t updates : {std::uint64_t{5}, std::uint64_t{3000}, std::uint64_t{1} << 40}) {
    state.updates = updates;
    job.restart_from(state);
    for (int i = 0; i < 3; ++i) job.step(false, 64);
    job.expect_equal();
  }
}

TEST(CharlmDeviceAdamState, OfAnotherSizeIsRefused) {
  StandIn standin;
  AdamJob job({});
  Adam::State state = job.device_state();
  state.second_moments.pop_back();
  charlm::Device device(StandIn::path(), 0);
  charlm::DeviceAdam adam(device, {{{0, 4, 0}, device.memory<float>(4), device.memory<std::uint16_t>(4)}},
                          GradType::kFp32, 1, 1e-3);
  EXPECT_FALSE(adam.put(state));
  EXPECT_TRUE(adam.put({7, {1, 2, 3, 4}, {0, 0, 0, 0}, {0, 0, 0, 0}}));
  EXPECT_FALSE(adam.put({8, {1, 2, 3, 5}, {0, 0, 0, 0}, {0, 0, 0}}));
  EXPECT_EQ(adam.state().updates, 7u);
  EXPECT_EQ(adam.state().masters, (std::vector<float>{1, 2, 3, 4}));
}

TEST(CharlmRateTable, EndsWhereNothingChangesAnyMore) {
  const std::vector<charlm::AdamRates> table = charlm::rate_table(2e-3);
  ASSERT_GT(table.size(), 1000u);
  ASSERT_LT(table.size(), 10000u);
  for (const std::uint64_t n : {table.size(), 2 * table.size(), std::size_t{1} << 40}) {
    EXPECT_EQ(charlm::adam_rates(2e-3, n).step_size, table.back().step_size);
    EXPECT_EQ(charlm::adam_rates(2e-3, n).second_correction, table.back().second_correction);
  }
  EXPECT_EQ(charlm::adam_rates(2e-3, 7).step_size, table[6].step_size);
}

}  // namespace
}  // namespace stepgate::test

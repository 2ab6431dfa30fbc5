// Steps of gates on CUDA memory: decided on the device, the same on every rank, with nothing that waits.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "plugin/core/last_error.h"
#include "tests/plugin/cuda/cuda_world.h"

namespace stepgate::test {
namespace {

constexpr float kBig = 3e38f;

// What two ranks reduce: 3 and 4 in the first two elements, scaled by the loss scale.
void healthy(CudaRank& r, float scale) {
  r.fill(0, {(r.rank() == 0 ? 1.0f : 2.0f) * scale, r.rank() == 0 ? 4.0f * scale : 0.0f});
}

TEST(CudaGate, DecidesOnTheDeviceAndTellsTheHost) {
  CudaWorld world({.ranks = 2});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    healthy(r, 65536);
    r.reduce(0);
    const CudaStep s = r.end_and_wait();
    ASSERT_TRUE(s.applies()) << s.error;
    EXPECT_EQ(s.decision.norm, 5);
    EXPECT_EQ(s.decision.scale, 65536);
    const Outputs seen = r.read_outputs();
    EXPECT_EQ(seen.found_inf, 0.0f);
    EXPECT_EQ(seen.grad_scale, 65536.0f);
    EXPECT_EQ(seen.norm, 5.0f);
  });
}

TEST(CudaGate, ANanOfOneRankIsSkippedEverywhereAndNamed) {
  CudaWorld world({.ranks = 3, .max_delay_us = 200});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0, 1});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {1});
    r.fill(1, {1, r.rank() == 2 ? NAN : 1.0f});
    r.reduce(1);
    r.reduce(0);
    const CudaStep s = r.end_and_wait();
    EXPECT_EQ(s.decision.skip, 1);
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_NAN);
    EXPECT_EQ(s.decision.next_scale, 32768);
    EXPECT_EQ(r.read_outputs().found_inf, 1.0f);
    // Two reductions of one segment each stick out of the range: the rank is known, the parameter is not.
    EXPECT_EQ(s.decision.offender, 2);
  });
}

TEST(CudaGate, TheParameterIsNamedOnItsRankAlone) {
  CudaWorld world({.ranks = 2, .max_delay_us = 200});
  world.run([](CudaRank& r) {
    r.declare("first", {0});
    r.declare("second", {1});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {1});
    r.fill(1, {1, r.rank() == 1 ? INFINITY : 1.0f});
    r.reduce(1);
    r.reduce(0);
    const CudaStep s = r.end_and_wait();
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_INF);
    EXPECT_EQ(s.decision.offender, 1);
    std::vector<stepgate_offender> list(8);
    std::size_t count = list.size();
    ASSERT_EQ(r.gate().offenders(list.data(), &count), STEPGATE_OK);
    ASSERT_EQ(count, r.rank() == 1 ? 1u : 0u);
    if (count == 1) {
      EXPECT_STREQ(list[0].parameter, "second.0");
      EXPECT_EQ(list[0].inf, 1u);
      EXPECT_EQ(list[0].step, 1u);
    }
  });
}

TEST(CudaGate, TheReductionItselfOverflows) {
  CudaWorld world({.ranks = 2});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {kBig});
    r.reduce(0);
    EXPECT_EQ(r.end_and_wait().decision.offender, STEPGATE_RANK_REDUCTION);
  });
}

// The scaler's whole life, with injections, is the one that plain arithmetic says.
TEST(CudaGate, ScaleAndTrackerFollowTheRule) {
  ScalerParams params = default_params(ScalerRule::kTorch);
  params.interval = 2;
  CudaWorld world({.ranks = 2, .max_delay_us = 100, .guard = true, .params = params});
  world.run([&](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    ScalerState expected = initial_state(params);
    const std::vector<int> bad = {0, 0, 1, 0, 0, 0, 1, 1};  // bit r: rank r holds an inf
    for (const int ranks : bad) {
      r.begin();
      r.fill(0, {(ranks >> r.rank() & 1) != 0 ? INFINITY : 1.0f});
      r.reduce(0);
      const CudaStep s = r.end_and_wait();
      ASSERT_EQ(s.status, STEPGATE_OK) << s.error;
      EXPECT_EQ(s.decision.scale, expected.scale);
      EXPECT_EQ(s.decision.skip, ranks != 0);
      update_scaler(params, ranks != 0, expected);
      EXPECT_EQ(s.decision.next_scale, expected.scale);
    }
    stepgate_scaler_info info{};
    ASSERT_EQ(r.gate().state(&info), STEPGATE_OK);
    EXPECT_EQ(info.growth_tracker, expected.growth_tracker);
    EXPECT_EQ(info.steps, bad.size());
    EXPECT_EQ(info.skipped, 3u);
    EXPECT_EQ(info.applied, bad.size() - 3);
  });
}

TEST(CudaGate, TheLegacyDefaultStreamIsAStream) {
  CudaWorld world({.ranks = 2, .max_delay_us = 100});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(nullptr), STEPGATE_OK) << gate::last_error();
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(r.gate().step_begin(nullptr), STEPGATE_OK);
      r.fill(0, {i == 1 && r.rank() == 0 ? NAN : 1.0f}, 0, nullptr);
      r.reduce(0, nullptr);
      ASSERT_EQ(r.gate().step_end(0, nullptr), STEPGATE_OK) << gate::last_error();
      EXPECT_EQ(r.wait().decision.skip, i);
    }
  });
}

TEST(CudaGate, OneRank) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    for (const float x : {1.0f, NAN, 1.0f}) {
      r.begin();
      r.fill(0, {x});
      r.reduce(0);
      EXPECT_EQ(r.end_and_wait().decision.skip, std::isnan(x));
    }
  });
}

// found_inf and grad_scale are where the optimizer reads them, and a decision that has not come is a skip.
TEST(CudaGate, OutputsAreWithdrawnBeforeTheExchange) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {1});
    r.reduce(0);
    ASSERT_TRUE(r.end_and_wait().applies());
    EXPECT_EQ(r.read_outputs().found_inf, 0.0f);
    r.begin();
    r.fill(0, {1});
    r.reduce(0);
    auto* fields = static_cast<double*>(
        r.device().allocate(STEPGATE_SUMMARY_FIELDS * sizeof(double), device::Memory::kDevice));
    ASSERT_EQ(r.gate().summarize(0, r.stream(), fields), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(r.read_outputs().found_inf, 1.0f);
    ASSERT_EQ(r.gate().decide(0, r.stream()), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(r.read_outputs().found_inf, 0.0f);
    ASSERT_EQ(r.gate().scaler_update(r.stream()), STEPGATE_OK) << gate::last_error();
    EXPECT_TRUE(r.wait().applies());
    r.device().release(fields, device::Memory::kDevice);
  });
}

// The caller carries the sum between the halves, in its own host memory: it has to wait there itself.
TEST(CudaGate, TheCallerMayCarryTheSumOverTheHost) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    double ballot[STEPGATE_ACTIVATION_FIELDS];
    ASSERT_EQ(r.gate().enforce_summarize(r.stream(), ballot), STEPGATE_OK) << gate::last_error();
    ASSERT_EQ(r.gate().enforce_decide(r.stream(), ballot), STEPGATE_OK) << gate::last_error();
    for (const float x : {2.0f, INFINITY}) {
      double fields[STEPGATE_SUMMARY_FIELDS];
      r.begin();
      r.fill(0, {x});
      ASSERT_EQ(r.gate().summarize(0, r.stream(), fields), STEPGATE_OK) << gate::last_error();
      r.sync(r.stream());
      EXPECT_EQ(fields[kSumContributors], 1);
      ASSERT_EQ(r.gate().decide(0, r.stream()), STEPGATE_OK) << gate::last_error();
      ASSERT_EQ(r.gate().scaler_update(r.stream()), STEPGATE_OK) << gate::last_error();
      const CudaStep s = r.wait();
      EXPECT_EQ(s.decision.skip, !std::isfinite(x));
      if (std::isfinite(x)) {
        EXPECT_EQ(s.decision.norm, 2.0 / 65536);
      }
    }
  });
}

TEST(CudaGate, ApplyMultipliesOnTheDeviceAndOnlyOnce) {
  StepPolicy policy;
  policy.unscale = UnscaleMode::kApply;
  CudaWorld world({.ranks = 2, .max_delay_us = 100, .policy = policy});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0, 1});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    for (const bool bad : {false, true}) {
      r.begin();
      r.fill(0, {65536}, 0);
      r.fill(1, {bad && r.rank() == 1 ? INFINITY : 131072.0f}, 0);
      r.reduce(0);
      r.reduce(1);
      ASSERT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK) << gate::last_error();
      ASSERT_EQ(r.gate().apply(0, r.stream()), STEPGATE_OK) << gate::last_error();
      EXPECT_EQ(r.gate().apply(0, r.stream()), STEPGATE_INVALID);
      const CudaStep s = r.wait();
      EXPECT_EQ(s.decision.skip, bad);
      EXPECT_EQ(s.decision.multiplier, 1);
      EXPECT_EQ(r.read(0, r.stream())[0], bad ? 131072.0f : 2.0f);
      if (!bad) {
        EXPECT_EQ(r.read(1, r.stream())[0], 4.0f);
      }
    }
  });
}

// ---- what the driver is asked for

std::map<std::string, int> tally(const StandIn& standin) {
  std::map<std::string, int> seen;
  for (const standin::CallRecord& c : standin.calls()) {
    ++seen[c.name];
    EXPECT_EQ(c.waited, 0) << c.name;
  }
  return seen;
}

// The account of docs/gpu.md: a step of B buckets reduced in place on the step's own stream, attribution on.
TEST(CudaGateAccount, LaunchesAndCallsOfAStep) {
  constexpr int kBuckets = 3;
  CudaWorld world({.ranks = 1});
  world.run([&](CudaRank& r) {
    for (int b = 0; b < kBuckets; ++b) r.declare("bucket" + std::to_string(b), {b});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    for (int b = 0; b < kBuckets; ++b) r.reduce(b);
    ASSERT_TRUE(r.end_and_wait().applies());
    r.standin().control().forget_calls();
    ASSERT_EQ(r.gate().step_begin(r.stream()), STEPGATE_OK);
    for (int b = 0; b < kBuckets; ++b) r.reduce(b);
    ASSERT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK) << gate::last_error();
    std::map<std::string, int> seen = tally(r.standin());
    // The stand-in NCCL's own: kBuckets gradients and the exchange.
    EXPECT_EQ(seen["cuMemcpyDtoHAsync_v2"], kBuckets + 1);
    EXPECT_EQ(seen["cuLaunchHostFunc"], kBuckets + 1);
    EXPECT_EQ(seen["cuMemcpyHtoDAsync_v2"], kBuckets + 1);
    for (const char* name : {"cuMemcpyDtoHAsync_v2", "cuLaunchHostFunc", "cuMemcpyHtoDAsync_v2",
                             "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"}) {
      seen.erase(name);
    }
    // Ours: begin, a local and a reduced scan per bucket, summarize, finish.
    EXPECT_EQ(seen["cuLaunchKernel"], 2 * kBuckets + 3);
    EXPECT_EQ(seen["cuEventRecord"], 2);      // what comes after the begin, and after the end, waits for it
    EXPECT_EQ(seen["cuStreamWaitEvent"], 1);  // the begin for the last step's end
    EXPECT_EQ(seen["cuStreamIsCapturing"], 2 + 2 * kBuckets);  // at begin and end, before and after a call
    EXPECT_EQ(seen["cuCtxGetCurrent"],
              2 * kBuckets + 3 + 2 + 1 + 2 + 2 * kBuckets);  // one beside each of the others
    const std::set<std::string> allowed = {"cuCtxGetCurrent", "cuLaunchKernel", "cuEventRecord",
                                           "cuStreamWaitEvent", "cuStreamIsCapturing"};
    for (const auto& [name, count] : seen) {
      EXPECT_EQ(allowed.count(name), 1u) << name << " " << count << " times: waits, allocates or asks";
    }
    EXPECT_TRUE(r.wait().applies());
  });
}

TEST(CudaGateAccount, TheTailIsTwoLaunchesAndTheExchange) {
  CudaWorld world({.ranks = 1});
  world.run([&](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.reduce(0);
    r.standin().control().forget_calls();
    ASSERT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(tally(r.standin())["cuLaunchKernel"], 2);
    EXPECT_TRUE(r.wait().applies());
  });
}

// Both write to one place, and the job has tied their streams together in no way.
TEST(CudaGateAccount, ASecondScanOfARangeWaitsForTheFirstOnAnotherStream) {
  CudaWorld world({.ranks = 1});
  world.run([&](CudaRank& r) {
    r.declare("sent", {0}, [](gate::RangeSpec& s) { s.result = false; });
    r.declare("result", {3});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const auto waits = [&r](device::Stream s) {
      Reduction op = r.reduction(0, s);
      op.recv = r.buffer(1);
      r.standin().control().forget_calls();
      r.gate().before(op);
      return tally(r.standin())["cuStreamWaitEvent"];
    };
    r.begin();
    EXPECT_EQ(waits(r.side_stream()), 1) << "for the step's begin";
    EXPECT_EQ(waits(r.side_stream()), 0);
    EXPECT_EQ(waits(r.stream()), 1);
    EXPECT_EQ(waits(r.stream()), 0);
    EXPECT_EQ(waits(r.side_stream()), 1);
    EXPECT_TRUE(r.end_and_wait().applies());
  });
}

// What no hook covered is read in one pass, not one range at a time.
TEST(CudaGateAccount, MissingRangesAreOnePass) {
  CudaWorld world({.ranks = 1});
  world.run([&](CudaRank& r) {
    for (int b = 0; b < CudaRank::kBuffers; ++b) r.declare("bucket" + std::to_string(b), {b});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    for (int b = 0; b < CudaRank::kBuffers; ++b) r.fill(b, {65536.0f * static_cast<float>(b + 1)});
    r.standin().control().forget_calls();
    ASSERT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(tally(r.standin())["cuLaunchKernel"], 2 + 1);
    EXPECT_EQ(r.wait().decision.norm, std::sqrt(1.0 + 4 + 9 + 16));
    EXPECT_EQ(r.gate().counters().ranges_missing, 4u);
  });
}

}  // namespace
}  // namespace stepgate::test

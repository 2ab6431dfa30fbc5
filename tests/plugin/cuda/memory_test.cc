// Which memory a gate on a device takes, and what becomes of its own when gates and communicators go.
#include <cmath>
#include <thread>

#include "plugin/core/last_error.h"
#include "tests/plugin/cuda/cuda_world.h"

namespace stepgate::test {
namespace {

TEST(CudaGateMemory, EachGateTakesItsOwnKindOnly) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    std::vector<float> host(8);
    gate::RangeSpec spec;
    spec.name = "host";
    spec.segments = {{host.data(), host.size()}};
    spec.parameters = {"w"};
    std::uint32_t id = 0;
    EXPECT_EQ(r.gate().declare_range(spec, &id), STEPGATE_UNSUPPORTED);
    EXPECT_NE(std::string(gate::last_error()).find("'host'"), std::string::npos) << gate::last_error();
    EXPECT_NE(std::string(gate::last_error()).find("STEPGATE_DEVICE"), std::string::npos);
  });
}

TEST(CudaGateMemory, TheHostDoesNotKnowTheScaleWithoutWaiting) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    double scale = 0;
    EXPECT_EQ(r.gate().scale(&scale), STEPGATE_UNSUPPORTED);
    EXPECT_EQ(r.gate().set_scale(1024), STEPGATE_OK) << gate::last_error();
    stepgate_scaler_info info{};
    ASSERT_EQ(r.gate().state(&info), STEPGATE_OK);
    EXPECT_EQ(info.scale, 1024);
  });
}

TEST(CudaGateMemory, DestroyedWithWorkInFlight) {
  CudaWorld world({.ranks = 2, .max_delay_us = 2000});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {1});
    r.reduce(0);
    ASSERT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK);
    r.destroy_gate();  // AddressSanitizer, and the account at the end, say whether it waited
  });
}

// Not left to the driver, whose frees need not wait: by the first of them the gate's own work is over.
TEST(CudaGateMemory, WaitsForItsWorkBeforeItFreesAnything) {
  CudaWorld world({.ranks = 1, .max_delay_us = 200});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.reduce(0);
    ASSERT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK);
    r.standin().control().forget_calls();
    r.destroy_gate();
    bool waited = false, freed = false;
    for (const standin::CallRecord& c : r.standin().calls()) {
      const std::string name = c.name;
      waited = waited || name == "cuStreamSynchronize";
      if (name.rfind("cuMemFree", 0) != 0) continue;
      freed = true;
      EXPECT_TRUE(waited) << name;
      if (!waited) break;
    }
    EXPECT_TRUE(freed);
  });
}

// Another thread gives the communicator up while the step is open: this rank has no decision, and the
// optimizer on the device is told to skip.
TEST(CudaGateMemory, AbortedFromAnotherThread) {
  CudaWorld world({.ranks = 2});
  world.run([](CudaRank& r) {
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {1});
    r.reduce(0);
    std::thread([&] { r.gate().comm_retired(r.comm()); }).join();
    const CudaStep s = r.end_and_wait();
    EXPECT_EQ(s.end, STEPGATE_UNDECIDED);
    EXPECT_EQ(s.status, STEPGATE_RELEASED) << "no sum will reach it any more";
    EXPECT_EQ(r.read_outputs().found_inf, 1.0f);
    // The pointer comes back as a new communicator, and the ranks begin again.
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    r.fill(0, {32768});
    r.reduce(0);
    EXPECT_EQ(r.end_and_wait().decision.norm, 1);
  });
}

TEST(CudaGateMemory, TwoGatesOnOneDevice) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    std::string error;
    gate::GateOptions options;
    options.name = "second";
    options.params = default_params(ScalerRule::kTorch);
    options.configuration.mode = gate::Mode::kEnforce;
    options.configuration.log = gate::LogLevel::kOff;
    auto second = gate::Gate::create(options, r.device(), StreamNccl::services(), &error);
    ASSERT_NE(second, nullptr) << error;
    gate::RangeSpec spec;
    spec.name = "other";
    spec.segments = {{r.buffer(1), CudaRank::kElements}};
    spec.parameters = {"w"};
    std::uint32_t id = 0;
    ASSERT_EQ(second->declare_range(spec, &id), STEPGATE_OK) << gate::last_error();
    ASSERT_EQ(second->add_group(r.comm()), STEPGATE_OK);
    r.declare("bucket", {0});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    ASSERT_EQ(second->enforce_begin(r.side_stream()), STEPGATE_OK) << gate::last_error();
    r.begin();
    ASSERT_EQ(second->step_begin(r.side_stream()), STEPGATE_OK);
    r.fill(0, {1});
    r.fill(1, {NAN}, 0, r.side_stream());
    ASSERT_EQ(second->step_end(0, r.side_stream()), STEPGATE_OK);
    EXPECT_TRUE(r.end_and_wait().applies());
    stepgate_decision d{};
    EXPECT_EQ(second->step_wait(0, &d), STEPGATE_OK);
    EXPECT_EQ(d.skip, 1);
  });
}

}  // namespace
}  // namespace stepgate::test

// What a job shows beside its gradients, in a device's memory: on its streams, in captures, read without
// waiting; the same bits as on the host.
#include <cmath>
#include <cstring>

#include "collectives/device/host/host_device.h"
#include "tests/plugin/cuda/cuda_world.h"

namespace stepgate::test {
namespace {

using device::cuda::GraphExecHandle;
using metrics::Observation;

std::vector<Observation> seen(CudaRank& r) {
  std::vector<Observation> all;
  r.gate().read_observations(&all);
  return all;
}

stepgate_status show(CudaRank& r, const char* name, int buffer, device::Stream s) {
  return r.gate().observations().observe(name, r.buffer(buffer), CudaRank::kElements, STEPGATE_FP32,
                                         STEPGATE_PHASE_FORWARD, s);
}

GradStats on_the_host(const std::vector<float>& x) {
  device::HostDevice host;
  GradStats stats;
  const device::Segment segment{x.data(), x.size()};
  device::Scan job;
  job.segments = {&segment, 1};
  job.total = &stats;
  EXPECT_EQ(host.scan(nullptr, job), device::Code::kOk);
  return stats;
}

TEST(CudaObservations, TheSameBitsAsOnTheHost) {
  CudaWorld world({.ranks = 1, .max_delay_us = 200});
  world.run([](CudaRank& r) {
    r.fill(0, {3, -0.0f, 1e-6f, INFINITY, NAN, 70000}, 0.1f);
    ASSERT_EQ(show(r, "act", 0, r.stream()), STEPGATE_OK) << gate::last_error();
    const std::vector<float> x = r.read(0, r.stream());
    const std::vector<Observation> all = seen(r);
    ASSERT_EQ(all.size(), 1u);
    const GradStats want = on_the_host(x);
    EXPECT_EQ(std::memcmp(&all[0].stats, &want, sizeof want), 0);
    EXPECT_EQ(all[0].nan, 1u);
  });
}

TEST(CudaObservations, NothingWaits) {
  CudaWorld world({.ranks = 1, .max_delay_us = 200});
  world.run([](CudaRank& r) {
    ASSERT_EQ(show(r, "act", 0, r.stream()), STEPGATE_OK) << gate::last_error();
    r.standin().control().forget_calls();
    for (int i = 0; i < 3; ++i) ASSERT_EQ(show(r, "act", 0, r.stream()), STEPGATE_OK);
    seen(r);
    for (const standin::CallRecord& c : r.standin().calls()) {
      const std::string name = c.name;
      EXPECT_EQ(name.find("Synchronize"), std::string::npos) << name;
      EXPECT_EQ(name.find("WaitEvent"), std::string::npos) << name << ": no stream waits for another";
      EXPECT_EQ(name.find("Alloc"), std::string::npos) << name;
      EXPECT_EQ(name.find("EventQuery"), std::string::npos) << name;
    }
  });
}

TEST(CudaObservations, StreamsThatNobodyOrders) {
  CudaWorld world({.ranks = 1, .max_delay_us = 300});
  world.run([](CudaRank& r) {
    for (int i = 1; i <= 8; ++i) {
      r.fill(0, {static_cast<float>(i)});
      r.fill(1, {static_cast<float>(-2 * i)}, 0, r.side_stream());
      ASSERT_EQ(show(r, "a", 0, r.stream()), STEPGATE_OK) << gate::last_error();
      ASSERT_EQ(show(r, "b", 1, r.side_stream()), STEPGATE_OK) << gate::last_error();
    }
    r.sync(r.stream());
    r.sync(r.side_stream());
    const std::vector<Observation> all = seen(r);
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].stats.abs_max, 8);
    EXPECT_EQ(all[1].stats.abs_max, 16);
    EXPECT_EQ(all[1].sequence, 8u);
  });
}

TEST(CudaObservations, UpdatesThatTheTypeAbsorbs) {
  CudaWorld world({.ranks = 1, .max_delay_us = 200});
  world.run([](CudaRank& r) {
    r.fill(0, {1, 1, 1, 1}, 1);
    r.fill(1, {2, 1, 1, 1}, 1);
    r.fill(2, {1, 1e-9f, 0, -0.0f}, 0);
    ASSERT_EQ(r.gate().observations().observe_update("w", r.buffer(0), r.buffer(1), r.buffer(2),
                                                     CudaRank::kElements, STEPGATE_FP32, r.stream()),
              STEPGATE_OK)
        << gate::last_error();
    r.sync(r.stream());
    const Observation o = seen(r).at(0);
    EXPECT_EQ(o.stats.elements, CudaRank::kElements);
    EXPECT_EQ(o.updates, 2u);
    EXPECT_EQ(o.absorbed, 1u);
  });
}

TEST(CudaObservations, AReplayLooksAgain) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    ASSERT_EQ(show(r, "act", 0, r.stream()), STEPGATE_OK) << gate::last_error();
    const GraphExecHandle graph = r.record(
        r.stream(), [&] { EXPECT_EQ(show(r, "act", 0, r.stream()), STEPGATE_OK) << gate::last_error(); });
    for (int i = 1; i <= 3; ++i) {
      r.fill(0, {static_cast<float>(i), NAN});
      r.launch(graph, r.stream());
      r.sync(r.stream());
      EXPECT_EQ(seen(r).at(0).stats.abs_max, i);
    }
    EXPECT_EQ(seen(r).at(0).nan, 3u);
    EXPECT_TRUE(r.gate().captured()) << "its memory must outlive the gate";
  });
}

TEST(CudaObservations, ANameThatIsNewInACaptureIsRefusedWhereItNeedsMemory) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    r.record(r.stream(), [&] {
      EXPECT_EQ(show(r, "act", 0, r.stream()), STEPGATE_UNSUPPORTED);
      EXPECT_NE(std::string(gate::last_error()).find("before the capture"), std::string::npos);
    });
    EXPECT_TRUE(seen(r).empty());
  });
}

TEST(CudaObservations, MemoryThatTheDeviceCannotRead) {
  CudaWorld world({.ranks = 1});
  world.run([](CudaRank& r) {
    const std::vector<float> host(4, 1.0f);
    EXPECT_EQ(r.gate().observations().observe("x", host.data(), host.size(), STEPGATE_FP32,
                                              STEPGATE_PHASE_LOSS, r.stream()),
              STEPGATE_UNSUPPORTED);
    EXPECT_NE(std::string(gate::last_error()).find("cannot read"), std::string::npos) << gate::last_error();
  });
}

TEST(CudaObservations, DestroyedWithWorkInFlight) {
  CudaWorld world({.ranks = 1, .max_delay_us = 2000});
  world.run([](CudaRank& r) {
    ASSERT_EQ(show(r, "a", 0, r.stream()), STEPGATE_OK) << gate::last_error();
    ASSERT_EQ(show(r, "b", 1, r.side_stream()), STEPGATE_OK) << gate::last_error();
    r.destroy_gate();  // AddressSanitizer, and the account at the end, say whether it waited
  });
}

}  // namespace
}  // namespace stepgate::test

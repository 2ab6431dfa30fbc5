// A mesh of communicators on streams: the exchange goes over each in turn, on the step's stream.
#include "tests/plugin/cuda/cuda_world.h"

namespace stepgate::test {
namespace {

// Two rows of two: ranks 0 1 and 2 3; columns 0 2 and 1 3.
struct CudaMesh {
  std::vector<std::unique_ptr<StreamNccl>> rows, columns;

  explicit CudaMesh(CudaWorld& world) {
    for (int i = 0; i < 2; ++i) {
      rows.push_back(std::make_unique<StreamNccl>(std::vector<int>{2 * i, 2 * i + 1}, world.driver()));
      columns.push_back(std::make_unique<StreamNccl>(std::vector<int>{i, i + 2}, world.driver()));
    }
  }
  StreamNccl& row(int rank) { return *rows[static_cast<std::size_t>(rank / 2)]; }
  StreamNccl& column(int rank) { return *columns[static_cast<std::size_t>(rank % 2)]; }
  stepgate_status activate(CudaRank& r) {
    EXPECT_EQ(r.gate().add_group(row(r.rank()).comm(r.rank() % 2)), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(r.gate().add_group(column(r.rank()).comm(r.rank() / 2)), STEPGATE_OK) << gate::last_error();
    return r.gate().enforce_begin(r.stream());
  }
};

void declare_shard(CudaRank& r) {
  r.declare("shard", {0}, [](gate::RangeSpec& s) { s.counted = true; });
}

TEST(CudaGroups, AMeshDecidesOnAllItsRanks) {
  CudaWorld world({.ranks = 4, .max_delay_us = 100});
  CudaMesh mesh(world);
  world.run([&](CudaRank& r) {
    declare_shard(r);
    ASSERT_EQ(mesh.activate(r), STEPGATE_OK) << gate::last_error();
    for (const int bad : {-1, 3, -1}) {
      r.begin();
      r.fill(0, {static_cast<float>(65536 * (r.rank() + 1)), r.rank() == bad ? NAN : 0.0f});
      const CudaStep s = r.end_and_wait();
      EXPECT_EQ(s.status, STEPGATE_OK) << s.error;
      EXPECT_EQ(s.decision.skip, bad >= 0);
      if (bad < 0) {
        EXPECT_EQ(s.decision.norm * s.decision.scale, std::sqrt(1.0 + 4 + 9 + 16) * 65536);
      }
    }
    EXPECT_EQ(mesh.row(r.rank()).calls(r.rank() % 2), 5) << "two rounds of the activation and three steps";
    EXPECT_EQ(mesh.column(r.rank()).calls(r.rank() / 2), 5);
  });
}

TEST(CudaGroups, AWholeStepInAGraphGoesOverBoth) {
  CudaWorld world({.ranks = 4});
  CudaMesh mesh(world);
  world.run([&](CudaRank& r) {
    declare_shard(r);
    ASSERT_EQ(mesh.activate(r), STEPGATE_OK) << gate::last_error();
    const auto graph = r.record(r.stream(), [&] {
      r.begin();
      ASSERT_EQ(r.gate().step_end(0, r.stream()), STEPGATE_OK) << gate::last_error();
    });
    for (const bool bad : {false, true, false}) {
      r.fill(0, {bad && r.rank() == 1 ? INFINITY : 1.0f});
      r.launch(graph, r.stream());
      r.sync(r.stream());
      const CudaStep s = r.wait();
      EXPECT_EQ(s.status, STEPGATE_OK) << s.error;
      EXPECT_EQ(s.decision.skip, bad);
    }
  });
}

// A row's call fails on rank 0: its column gets no sum of that row, and nobody goes his own way.
TEST(CudaGroups, ARankThatItsRowFailsLeavesItsColumnUndecided) {
  CudaWorld world({.ranks = 4});
  CudaMesh mesh(world);
  mesh.row(0).fail(0, 3);  // the activation's two rounds and one step before
  world.run([&](CudaRank& r) {
    declare_shard(r);
    ASSERT_EQ(mesh.activate(r), STEPGATE_OK) << gate::last_error();
    r.begin();
    ASSERT_TRUE(r.end_and_wait().applies());
    r.begin();
    const CudaStep s = r.end_and_wait();
    EXPECT_FALSE(s.applies()) << "one of the four is missing from every sum";
    EXPECT_EQ(s.status, STEPGATE_UNDECIDED) << s.error;
    r.begin();
    EXPECT_EQ(r.end_and_wait().status, STEPGATE_RELEASED);
  });
}

}  // namespace
}  // namespace stepgate::test

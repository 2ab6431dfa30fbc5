// Several groups: the exchange over a mesh is the exchange over all its ranks, each rank once; duplicates
// count once; and a rank that one of its groups cuts off leads nobody to decide otherwise than the others.
#include "tests/plugin/fake_mesh.h"

namespace stepgate::test {
namespace {

using Decisions = std::vector<std::vector<Step>>;  // by rank, by step

// 60 steps of shards with random infs and NaNs. mesh: nullptr for one group of all.
Decisions decide_over(int ranks, Mesh* mesh, std::uint64_t seed) {
  WorldOptions o;
  o.ranks = ranks;
  o.params = default_params(ScalerRule::kStepgate);
  o.params.interval = 5;
  o.policy.max_norm = 0.5;
  o.quiet = true;
  o.seed = seed;
  World world(o);
  Decisions all(static_cast<std::size_t>(ranks));
  world.run([&](Rank& r) {
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(r.rank()));
    r.shard.resize(50);
    r.declare("shard", {&r.shard});
    if (mesh != nullptr) {
      mesh->add_groups(r);
      ASSERT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
    } else {
      ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    }
    for (int i = 0; i < 60; ++i) {
      for (float& x : r.shard) x = std::normal_distribution<float>(0, 1000)(random);
      if (chance(random, 0.1 / ranks)) r.shard[below(random, 50)] = chance(random, 0.5) ? NAN : INFINITY;
      all[static_cast<std::size_t>(r.rank())].push_back(r.step());
    }
  });
  return all;
}

void expect_same(const Decisions& mesh, const Decisions& one) {
  for (std::size_t r = 0; r < one.size(); ++r) {
    ASSERT_EQ(mesh[r].size(), one[0].size());
    for (std::size_t i = 0; i < one[0].size(); ++i) {
      const stepgate_decision &a = mesh[r][i].decision, &b = one[0][i].decision;
      EXPECT_EQ(mesh[r][i].status, STEPGATE_OK) << mesh[r][i].error;
      EXPECT_TRUE(a.skip == b.skip && a.reason == b.reason && a.offender == b.offender);
      EXPECT_EQ(bits(a.norm), bits(b.norm));
      EXPECT_TRUE(bits(a.multiplier) == bits(b.multiplier) && a.next_scale == b.next_scale);
    }
  }
}

class Meshes : public testing::TestWithParam<std::vector<int>> {};

TEST_P(Meshes, DecideAsOneGroupOfAllDoes) {
  const std::uint64_t seed = seeded("mesh")();
  Mesh mesh(GetParam(), seed);
  const Decisions over_mesh = decide_over(mesh.world(), &mesh, seed);
  expect_same(over_mesh, decide_over(mesh.world(), nullptr, seed));
  for (std::size_t d = 0; d < mesh.dimensions(); ++d) {
    const bool used = GetParam()[d] > 1;
    EXPECT_EQ(mesh.line(d, 0).exchanges(0), used ? 62 : 0)
        << "two rounds of the vote, then once a step in each dimension that has ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Meshes,
                         testing::Values(std::vector<int>{2, 2}, std::vector<int>{3, 2},
                                         std::vector<int>{2, 1, 3}, std::vector<int>{2, 2, 2}));

// Tensor-parallel pairs of two replicas: weights are cut among a pair, norms are whole on each of its ranks,
// and both are the same in the replicas. What the lowest rank of the replica group counts is all there is.
TEST(GateGroups, ReplicatedAndTensorParallelDuplicatesCountOnce) {
  Mesh mesh({2, 2}, seeded("mesh")());  // tensor, data
  World world({.ranks = 4});
  world.run([&](Rank& r) {
    const bool first_tensor = mesh.place(0, r.rank()) == 0, first_data = mesh.place(1, r.rank()) == 0;
    std::vector<float> weight(2, first_tensor ? 1.0f : 2.0f), norm(1, 4.0f);
    r.declare("weight", {&weight}, [&](gate::RangeSpec& s) { s.counted = first_data; });
    r.declare("norm", {&norm}, [&](gate::RangeSpec& s) { s.counted = first_data && first_tensor; });
    mesh.add_groups(r);
    ASSERT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(r.step().decision.norm, std::sqrt(2 * 1.0 + 2 * 4.0 + 16.0) / 65536);
    if (r.rank() == 3) norm[0] = NAN;  // a duplicate that nobody counts
    const Step s = r.step();
    EXPECT_EQ(s.decision.reason, STEPGATE_REASON_NAN) << "flags count in any case";
  });
}

TEST(GateGroups, ThatDoNotMakeTheWorldAreSaid) {
  Mesh mesh({2, 2}, 1);
  World world({.ranks = 8});
  Rank& r = world.rank(0);
  ASSERT_EQ(r.gate().add_group(mesh.comm(0, 0)), STEPGATE_OK);
  EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_FAILED);
  EXPECT_NE(std::string(gate::last_error()).find("1 groups spans its world of 8"), std::string::npos);
  ASSERT_EQ(r.gate().add_group(mesh.comm(1, 0)), STEPGATE_OK);
  EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_FAILED);
  EXPECT_NE(std::string(gate::last_error()).find("sizes 2 x 2"), std::string::npos) << gate::last_error();
  EXPECT_EQ(mesh.line(0, 0).exchanges(0), 0) << "nothing may be issued that others do not answer";
}

TEST(GateGroups, AtMostEight) {
  std::vector<std::unique_ptr<FakeNccl>> more;
  World world({.ranks = 1});
  for (std::size_t i = 0; i < gate::kMaxGroups; ++i) {
    more.push_back(std::make_unique<FakeNccl>(1, 1, std::chrono::seconds(1)));
    ASSERT_EQ(world.rank(0).gate().add_group(more.back()->comm(0)), STEPGATE_OK);
  }
  EXPECT_EQ(world.rank(0).gate().add_group(world.rank(0).comm()), STEPGATE_INVALID);
  EXPECT_NE(std::string(gate::last_error()).find("at most 8"), std::string::npos) << gate::last_error();
}

// The product fits, and yet two ranks would count twice and two never.
TEST(GateGroups, ThatMeetTheSameRanksTwiceAreRefused) {
  Mesh mesh({2, 2}, seeded("mesh")());
  Mesh again({2, 2}, seeded("mesh")());
  World world({.ranks = 4});
  world.run([&](Rank& r) {
    ASSERT_EQ(r.gate().add_group(mesh.comm(0, r.rank())), STEPGATE_OK);
    ASSERT_EQ(r.gate().add_group(again.comm(0, r.rank())), STEPGATE_OK);
    EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_REFUSED);
    EXPECT_NE(std::string(gate::last_error()).find("each once"), std::string::npos) << gate::last_error();
  });
}

// {0,1,2}{3,4,5} and then {0,3}{1,2}{4,5}: ranks 0 and 3 sum up all six, each once, and the others do not.
TEST(GateGroups, ThatAreAMeshOnSomeRanksOnlyAreRefusedOnAll) {
  const std::chrono::seconds deadline{60};
  FakeNccl low(3, seeded("low")(), deadline), high(3, seeded("high")(), deadline);
  std::array<std::unique_ptr<FakeNccl>, 3> pairs;
  for (auto& pair : pairs) pair = std::make_unique<FakeNccl>(2, seeded("pair")(), deadline);
  constexpr std::array<std::size_t, 6> kPair = {0, 1, 1, 0, 2, 2};
  constexpr std::array<int, 6> kPlace = {0, 0, 1, 1, 0, 1};
  World world({.ranks = 6});
  world.run([&](Rank& r) {
    const auto rank = static_cast<std::size_t>(r.rank());
    FakeNccl& three = r.rank() < 3 ? low : high;
    ASSERT_EQ(r.gate().add_group(three.comm(r.rank() % 3)), STEPGATE_OK);
    ASSERT_EQ(r.gate().add_group(pairs[kPair[rank]]->comm(kPlace[rank])), STEPGATE_OK);
    EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_REFUSED) << "rank " << rank;
    EXPECT_FALSE(r.gate().enforcing());
  });
}

// Whose order differs is found where the caller carries the vote; over the groups themselves ranks that do
// not meet wait, as they would in any collective.
TEST(GateGroups, InAnotherOrderAreRefused) {
  Mesh mesh({2, 3}, 1);
  World world({.ranks = 6});
  double sums[STEPGATE_ACTIVATION_FIELDS] = {};
  for (int rank = 0; rank < 6; ++rank) {
    Rank& r = world.rank(rank);
    const std::size_t first = rank == 4 ? 1 : 0;
    ASSERT_EQ(r.gate().add_group(mesh.comm(first, rank)), STEPGATE_OK);
    ASSERT_EQ(r.gate().add_group(mesh.comm(1 - first, rank)), STEPGATE_OK);
    double fields[STEPGATE_ACTIVATION_FIELDS];
    ASSERT_EQ(r.gate().enforce_summarize(nullptr, fields), STEPGATE_OK);
    for (int i = 0; i < STEPGATE_ACTIVATION_FIELDS; ++i) sums[i] += fields[i];
  }
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(world.rank(rank).gate().enforce_decide(nullptr, sums), STEPGATE_REFUSED);
    EXPECT_NE(std::string(gate::last_error()).find("lists of groups"), std::string::npos);
  }
}

// ---- a rank that one of its groups fails

// Two steps of a 2 x 2 mesh; in the first one rank 0 meets `fate` in that dimension. By rank, by step.
Decisions steps_with(std::size_t dimension, Fate fate) {
  Mesh mesh({2, 2}, seeded("mesh")());
  mesh.line(dimension, 0).set_fate(0, 2, fate);  // after the activation's two rounds
  World world({.ranks = 4});
  Decisions all(4);
  world.run([&](Rank& r) {
    r.declare("shard", {&r.shard});
    mesh.add_groups(r);
    ASSERT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
    for (int i = 0; i < 2; ++i) all[static_cast<std::size_t>(r.rank())].push_back(r.step());
  });
  return all;
}

// Nobody decides otherwise than another rank: who has no decision says so, and all are released next.
void expect_never_apart(const Decisions& all) {
  bool applied = false, released = false;
  for (const auto& steps : all) {
    ASSERT_EQ(steps.size(), 2u);
    applied = applied || steps[0].applies();
    released = released || steps[0].status == STEPGATE_RELEASED;
    EXPECT_EQ(steps[1].status, STEPGATE_RELEASED) << steps[1].error;
    EXPECT_EQ(steps[0].found_inf, steps[0].applies() ? 0.0f : 1.0f);
  }
  EXPECT_FALSE(applied && released) << "some ranks end the agreement in a step that others apply";
  EXPECT_EQ(all[0][0].status, STEPGATE_UNDECIDED);
}

TEST(GateGroupFailures, SumLostInTheFirstGroupLeavesItsNextGroupUndecided) {
  const Decisions all = steps_with(0, Fate::kSumLost);
  expect_never_apart(all);
  EXPECT_TRUE(all[1][0].applies()) << "its sums are whole";
  EXPECT_TRUE(all[3][0].applies());
  EXPECT_EQ(all[2][0].status, STEPGATE_UNDECIDED) << "rank 0 had no sum to bring it";
}

TEST(GateGroupFailures, SumLostInTheLastGroupCutsOffOneRank) {
  const Decisions all = steps_with(1, Fate::kSumLost);
  expect_never_apart(all);
  for (const std::size_t r : {1u, 2u, 3u}) EXPECT_TRUE(all[r][0].applies()) << all[r][0].error;
}

TEST(GateGroupFailures, AbsentFromAGroup) {
  for (const std::size_t dimension : {0u, 1u}) {
    SCOPED_TRACE(dimension);
    const Decisions all = steps_with(dimension, Fate::kAbsent);
    expect_never_apart(all);
    EXPECT_EQ(all[2][0].status, STEPGATE_UNDECIDED) << "one of the four is missing from its sums";
  }
}

TEST(GateGroupFailures, ADeviceFailureBeforeTheExchangeReleasesAllInThatStep) {
  Mesh mesh({2, 2}, seeded("mesh")());
  World world({.ranks = 4});
  world.run([&](Rank& r) {
    r.declare("shard", {&r.shard});
    mesh.add_groups(r);
    ASSERT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK);
    if (r.rank() == 1) r.device().fail(FaultyDevice::kScan, 0);
    EXPECT_EQ(r.step().status, STEPGATE_RELEASED);
  });
}

// After one step that applies, the ranks of the first line of the dimension lose its communicator. Whether
// this rank is one of them.
bool loses_its_line_after_a_step(Rank& r, Mesh& mesh, std::size_t dimension) {
  r.declare("shard", {&r.shard});
  mesh.add_groups(r);
  EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK);
  EXPECT_TRUE(r.step().applies());
  const bool mine = &mesh.line(dimension, r.rank()) == &mesh.line(dimension, 0);
  if (mine) r.gate().comm_retired(mesh.comm(dimension, r.rank()));
  return mine;
}

// The job destroys one line of a dimension: its ranks reach the others over what is left to them, and
// nobody waits for ever.
TEST(GateGroupFailures, ACommunicatorThatGoesReleasesAll) {
  for (const std::size_t dimension : {0u, 1u}) {
    SCOPED_TRACE(dimension);
    Mesh mesh({2, 2}, seeded("mesh")());
    World world({.ranks = 4});
    world.run([&](Rank& r) {
      const bool mine = loses_its_line_after_a_step(r, mesh, dimension);
      const Step s = r.step();
      EXPECT_FALSE(s.applies());
      EXPECT_EQ(s.status, STEPGATE_RELEASED) << s.error;
      if (mine) {
        EXPECT_EQ(s.end, STEPGATE_UNDECIDED);
        EXPECT_NE(s.error.find("has gone"), std::string::npos) << s.error;
      }
    });
  }
}

// Also whoever is cut off goes on unguarded where the others do.
TEST(GateGroupFailures, ACommunicatorThatGoesLetsAllGoOnUnguarded) {
  for (const std::size_t dimension : {0u, 1u}) {
    SCOPED_TRACE(dimension);
    Mesh mesh({2, 2}, seeded("mesh")());
    WorldOptions o{.ranks = 4};
    o.policy.released = ReleasedPolicy::kUnguarded;
    o.policy.unscale = UnscaleMode::kApply;
    World world(o);
    world.run([&](Rank& r) {
      loses_its_line_after_a_step(r, mesh, dimension);
      EXPECT_EQ(r.step().found_inf, 1.0f) << "the step of the release is nobody's";
      for (int i = 0; i < 2; ++i) {
        r.shard = {65536, 131072};
        const Step s = r.step();
        EXPECT_EQ(s.status, STEPGATE_RELEASED) << s.error;
        EXPECT_EQ(s.found_inf, 0.0f);
        EXPECT_EQ(s.decision.skip, 0);
        EXPECT_EQ(r.gate().apply(0, nullptr), STEPGATE_OK) << gate::last_error();
        EXPECT_EQ(r.shard, (std::vector<float>{1, 2}));
      }
    });
  }
}

}  // namespace
}  // namespace stepgate::test

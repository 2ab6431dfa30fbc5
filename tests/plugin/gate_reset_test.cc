// A world that has changed: survivors go on over new communicators, with the scaler that they had.
#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

constexpr int kBefore = 4, kAfter = 3, kGone = 1;

int new_rank(int rank) {
  return rank > kGone ? rank - 1 : rank;
}

stepgate_scaler_info state_of(Rank& r) {
  stepgate_scaler_info info{};
  EXPECT_EQ(r.gate().state(&info), STEPGATE_OK);
  return info;
}

// In step 2 rank kGone does not come; what the others get is in `fates`, by rank.
struct Loss {
  World world{{.ranks = kBefore}};
  FakeNccl smaller{kAfter, seeded("smaller world")(), std::chrono::seconds(60)};

  explicit Loss(std::array<Fate, kBefore> fates) {
    for (int r = 0; r < kBefore; ++r) world.nccl().set_fate(r, 2, fates[static_cast<std::size_t>(r)]);
  }
  // False on the rank that is lost.
  bool two_steps(Rank& r) {
    r.declare("shard", {&r.shard});
    EXPECT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    if (r.rank() == 0) r.shard[0] = INFINITY;
    EXPECT_EQ(r.step().decision.next_scale, 32768) << "so that the scaler is not a fresh one";
    r.shard[0] = 1;
    const Step lost = r.step();
    EXPECT_FALSE(r.rank() == kGone && lost.applies());
    return r.rank() != kGone;
  }
  stepgate_status go_on(Rank& r) {
    r.gate().comm_retired(r.comm());
    EXPECT_EQ(r.gate().reset_world(1, kAfter, new_rank(r.rank())), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(r.gate().add_group(smaller.comm(new_rank(r.rank()))), STEPGATE_OK) << gate::last_error();
    return r.gate().enforce_begin(nullptr);
  }
};

TEST(GateResetWorld, SurvivorsGoOnWithTheirScaler) {
  Loss loss({Fate::kSumLost, Fate::kAbsent, Fate::kSumLost, Fate::kSumLost});
  loss.world.run([&](Rank& r) {
    if (!loss.two_steps(r)) return;
    ASSERT_EQ(loss.go_on(r), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(r.gate().identity().world, kAfter);
    const Step good = r.step();
    ASSERT_TRUE(good.applies()) << good.error;
    EXPECT_EQ(good.decision.scale, 32768);
    EXPECT_EQ(good.decision.norm, std::sqrt(2.0 * kAfter) / 32768) << "of the three that are left";
    EXPECT_EQ(state_of(r).generation, 1u);
    if (r.rank() == 3) r.shard[1] = NAN;
    r.begin();
    std::vector<float> sent(r.shard);
    const Reduction op{OpKind::kAllReduce,
                       ncclFloat32,
                       ncclSum,
                       0,
                       sent.data(),
                       r.shard.data(),
                       sent.size(),
                       kAfter,
                       loss.smaller.comm(new_rank(r.rank())),
                       nullptr};
    r.gate().before(op);
    r.gate().after(op, stepgate::Outcome::kLaunched);
    const Step bad = r.end();
    EXPECT_EQ(bad.decision.reason, STEPGATE_REASON_NAN);
    EXPECT_EQ(bad.decision.offender, new_rank(3)) << "ranks are those of the new world";
  });
}

// One rank was served and has applied the step that the others lost: their weights differ as well.
TEST(GateResetWorld, RanksThatWereServedDifferentlyLoadACheckpointFirst) {
  Loss loss({Fate::kServed, Fate::kServed, Fate::kSumLost, Fate::kSumLost});
  std::vector<unsigned char> checkpoint(gate::state_blob_bytes());
  std::size_t bytes = checkpoint.size();
  ASSERT_EQ(loss.world.rank(0).gate().state_save(checkpoint.data(), &bytes), STEPGATE_OK);
  loss.world.run([&](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    EXPECT_TRUE(r.step().applies());
    EXPECT_EQ(r.step().applies(), r.rank() <= 1);
    if (r.rank() == kGone) return;
    EXPECT_EQ(loss.go_on(r), STEPGATE_REFUSED);
    EXPECT_NE(std::string(gate::last_error()).find("ranks hold different"), std::string::npos);
    ASSERT_EQ(r.gate().state_load(checkpoint.data(), bytes), STEPGATE_OK) << gate::last_error();
    ASSERT_EQ(r.gate().reset(1), STEPGATE_OK);
    ASSERT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
    EXPECT_TRUE(r.step().applies());
  });
}

// A rank that was started again joins those that have gone on: it knows their state, and none of their
// decisions.
TEST(GateResetWorld, ANewcomerTakesOverASurvivorsStateAndNobodyDiverges) {
  World survivor({.ranks = 1}), newcomer({.ranks = 1});
  FakeNccl both(2, seeded("larger world")(), std::chrono::seconds(60));
  Rank& old = survivor.rank(0);
  old.declare("shard", {&old.shard});
  ASSERT_EQ(old.activate(), STEPGATE_OK) << gate::last_error();
  old.shard[0] = INFINITY;
  EXPECT_EQ(old.step().decision.next_scale, 32768);
  old.shard[0] = 1;
  EXPECT_TRUE(old.step().applies());
  std::vector<unsigned char> state(gate::state_blob_bytes());
  std::size_t bytes = state.size();
  ASSERT_EQ(old.gate().state_save(state.data(), &bytes), STEPGATE_OK);
  newcomer.rank(0).declare("shard", {&newcomer.rank(0).shard});
  const auto go_on = [&](Rank& r, int rank) {
    ASSERT_EQ(r.gate().reset_world(1, 2, rank), STEPGATE_OK) << gate::last_error();
    ASSERT_EQ(r.gate().state_load(state.data(), bytes), STEPGATE_OK) << gate::last_error();
    ASSERT_EQ(r.gate().add_group(both.comm(rank)), STEPGATE_OK);
    ASSERT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
    for (int i = 0; i < 3; ++i) {
      const Step s = r.step();
      EXPECT_TRUE(s.applies()) << s.error;
      EXPECT_EQ(s.decision.diverged, 0) << "in step " << i;
      EXPECT_EQ(s.decision.scale, 32768);
    }
  };
  std::thread young([&] { go_on(newcomer.rank(0), 1); });
  go_on(old, 0);
  young.join();
}

// The vote of the old world never came back; the new world has communicators of its own.
TEST(GateResetWorld, AStuckExchangeOfTheOldWorldHoldsNothingUp) {
  // Never destroyed: the thread of the call that stayed may still be on its way out of it.
  static World* const world = new World({.ranks = 2, .activation_seconds = 0.2});
  FakeNccl alone(1, 1, std::chrono::seconds(60));
  std::atomic<bool> gave_up{false};
  world->run([&](Rank& r) {
    ASSERT_EQ(r.gate().add_group(r.comm()), STEPGATE_OK);
    if (r.rank() == 1) {
      while (!gave_up) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      r.gate().enforce_begin(nullptr);  // answers the call that stayed
      return;
    }
    EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_TIMEOUT);
    ASSERT_EQ(r.gate().reset_world(1, 1, 0), STEPGATE_OK) << gate::last_error();
    ASSERT_EQ(r.gate().add_group(alone.comm(0)), STEPGATE_OK);
    EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
    EXPECT_TRUE(r.step().applies());
    gave_up = true;
  });
}

// Rank 0 is reset within its third step and the others before theirs: they go on together.
TEST(GateReset, RanksThatHaveBegunDifferentlyManyStepsGoOnTogether) {
  World world({.ranks = 3});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    EXPECT_TRUE(r.step().applies());
    EXPECT_TRUE(r.step().applies());
    if (r.rank() == 0) r.begin();
    ASSERT_EQ(r.gate().reset(1), STEPGATE_OK);
    ASSERT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
    for (std::uint64_t step : {4u, 5u, 6u}) {
      r.shard[0] = r.rank() == 1 && step == 5 ? NAN : 1;
      const Step s = r.step();
      EXPECT_EQ(s.status, STEPGATE_OK) << s.error;
      EXPECT_EQ(s.decision.skip, step == 5);
      EXPECT_EQ(s.decision.diverged, 0);
      EXPECT_EQ(s.decision.step, step) << "no rank uses a number twice";
    }
  });
}

// A thread that looks after the job resets the gate while the step's thread waits in the exchange.
TEST(GateReset, AStepInItsExchangeIsNoneOfTheNewAgreement) {
  World world({.ranks = 2});
  FakeNccl alone(1, 1, std::chrono::seconds(60));
  std::atomic<bool> renewed{false};
  world.run([&](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    r.begin();
    if (r.rank() == 1) {
      while (!renewed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      r.end();  // answers the exchange of the old world
      return;
    }
    std::thread recovery([&] {
      while (r.nccl().exchanges(0) < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_EQ(r.gate().reset_world(1, 1, 0), STEPGATE_OK) << gate::last_error();
      EXPECT_EQ(r.gate().add_group(alone.comm(0)), STEPGATE_OK);
      EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
      r.begin();
      renewed = true;
    });
    EXPECT_EQ(r.gate().step_end(0, nullptr), STEPGATE_UNDECIDED);
    EXPECT_NE(std::string(gate::last_error()).find("was reset"), std::string::npos) << gate::last_error();
    recovery.join();
    const void* const old = r.nccl().receiver(0);
    EXPECT_TRUE(r.end().applies()) << "the step of the new agreement is still open";
    EXPECT_NE(alone.receiver(0), old) << "the old all-reduce may still write there";
  });
}

// On a communicator that does not block the all-reduce whose sum never came may end at any time.
TEST(GateReset, AnExchangeThatFailedWritesIntoNoLaterAgreement) {
  World world({.ranks = 2});
  for (int r = 0; r < 2; ++r) world.nccl().set_fate(r, 2, Fate::kSumLost);
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    EXPECT_TRUE(r.step().applies());
    const void* const first = r.nccl().receiver(r.rank());
    EXPECT_EQ(r.step().end, STEPGATE_UNDECIDED);
    const void* const lost = r.nccl().receiver(r.rank());
    EXPECT_EQ(lost, first);
    if (r.rank() == 1) r.device().fail(FaultyDevice::kAllocate, 0);
    ASSERT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(r.step().status, STEPGATE_RELEASED) << "rank 1 had no memory for another one";
    ASSERT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
    EXPECT_TRUE(r.step().applies());
    EXPECT_NE(r.nccl().receiver(r.rank()), lost);
  });
}

std::set<std::string> threads_of_this_process() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) names.insert(entry.path());
  return names;
}

// The vote waits in its first group. What it was given up for is not asked in the second one, whose
// communicator the job uses by then.
TEST(GateResetWorld, AVoteThatWasGivenUpAsksNoFurtherGroup) {
  // Never destroyed: the thread of the call that stayed may still be on its way out of it.
  static World* const world = new World({.ranks = 4, .activation_seconds = 0.2});
  static FakeNccl* const first = new FakeNccl(2, 1, std::chrono::seconds(60));
  static FakeNccl* const second = new FakeNccl(2, 2, std::chrono::seconds(60));
  Rank& r = world->rank(0);
  ASSERT_EQ(r.gate().add_group(first->comm(0)), STEPGATE_OK);
  ASSERT_EQ(r.gate().add_group(second->comm(0)), STEPGATE_OK);
  std::thread([] {}).join();  // a sanitizer's own thread comes with the first of ours
  const std::set<std::string> before = threads_of_this_process();
  EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_TIMEOUT) << gate::last_error();
  std::set<std::string> stayed = threads_of_this_process();
  for (const std::string& name : before) stayed.erase(name);
  ASSERT_EQ(stayed.size(), 1u) << "the thread that waits in the first group";
  double fields[gate::kExchangeFields] = {};
  const auto nothing = [](const std::vector<const void*>&, void*) {};
  EXPECT_EQ(first->meet(FakeNccl::kExchange, 1, fields, sizeof fields, fields, nothing), ncclSuccess);
  // It ends, or it stands in the second group, where nobody comes.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(50);
  bool ended = false;
  while (!ended && second->exchanges(0) == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ended = !std::filesystem::exists(*stayed.begin());
  }
  EXPECT_TRUE(ended) << "what was given up went on";
  EXPECT_EQ(second->exchanges(0), 0);
}

TEST(GateResetWorld, OldGroupsAreForgottenAndTheAgreementHasEnded) {
  World world({.ranks = 1});
  Rank& r = world.rank(0);
  ASSERT_EQ(r.activate(), STEPGATE_OK);
  r.begin();
  ASSERT_EQ(r.gate().reset_world(5, 1, 0), STEPGATE_OK);
  EXPECT_EQ(r.gate().step_begin(nullptr), STEPGATE_INACTIVE);
  EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_FAILED);
  EXPECT_NE(std::string(gate::last_error()).find("none of the gate's 0 groups"), std::string::npos)
      << gate::last_error();
  ASSERT_EQ(r.activate(), STEPGATE_OK) << "the same communicator may be added again";
  EXPECT_TRUE(r.step().applies());
}

// Nothing changes where the device cannot be told.
TEST(GateResetWorld, AFailureKeepsTheOldWorld) {
  World world({.ranks = 1});
  Rank& r = world.rank(0);
  ASSERT_EQ(r.activate(), STEPGATE_OK);
  for (const auto call : {FaultyDevice::kAllocate, FaultyDevice::kCopyIn}) {
    r.device().fail(call, 0, FaultyDevice::kForEver);
    EXPECT_EQ(r.gate().reset_world(5, 7, 3), STEPGATE_FAILED);
    r.device().heal();
    EXPECT_EQ(r.gate().identity().world, 1);
    EXPECT_EQ(r.gate().identity().rank, 0);
    EXPECT_TRUE(r.step().applies()) << "the agreement goes on";
  }
}

}  // namespace
}  // namespace stepgate::test

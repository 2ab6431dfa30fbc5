// The activation vote, from ballots to verdict.
#include "plugin/core/activation.h"

#include <algorithm>
#include <functional>
#include <random>
#include <thread>

#include "plugin/core/gate_counters.h"
#include "tests/collectives/core/support.h"

namespace stepgate::gate {
namespace {

using metrics::RefuseReason;

struct Voter {
  Ballot ballot{0x10001, 0xdeadbeef, 2, 0xabcd1234, 3, 400, 399};
  BallotKind kind = BallotKind::kEnter;
  std::uint32_t rank = 0;
  bool willing = true;
  bool votes = true;
};

std::vector<Voter> voters(std::uint32_t world) {
  std::vector<Voter> all(world);
  for (std::uint32_t r = 0; r < world; ++r) all[r].rank = r;
  return all;
}

Verdict count(const std::vector<Voter>& all, BallotKind kind = BallotKind::kEnter) {
  std::vector<double> sums(kActivationFields, 0.0);
  for (const Voter& v : all) {
    double fields[kActivationFields];
    write_ballot(v.ballot, v.kind, v.rank, v.willing, fields);
    for (int i = 0; v.votes && i < kActivationFields; ++i) sums[static_cast<std::size_t>(i)] += fields[i];
  }
  return count_ballots(sums.data(), kind, static_cast<std::uint32_t>(all.size()));
}

void expect_refused(const Verdict& v, RefuseReason reason, const std::string& word) {
  EXPECT_FALSE(v.accepted);
  EXPECT_EQ(v.reason, reason) << v.why;
  EXPECT_NE(v.why.find(word), std::string::npos) << v.why;
}

TEST(Activation, EqualBallotsAreAccepted) {
  for (const std::uint32_t world : {1u, 2u, 3u, 8u, 1000u}) {
    const Verdict v = count(voters(world));
    EXPECT_TRUE(v.accepted) << world << ": " << v.why;
    EXPECT_EQ(v.why, "");
  }
}

TEST(Activation, EveryItemThatDiffersOnOneRankRefuses) {
  struct {
    const char* word;
    RefuseReason reason;
    std::uint32_t Ballot::*item;
  } const cases[] = {
      {"versions", RefuseReason::kVersion, &Ballot::version},
      {"configurations", RefuseReason::kConfig, &Ballot::configuration},
      {"groups", RefuseReason::kGroups, &Ballot::groups},
      {"scaler states", RefuseReason::kState, &Ballot::state},
      {"generations", RefuseReason::kGeneration, &Ballot::generation},
      {"decided", RefuseReason::kState, &Ballot::decided},
      {"confirmed", RefuseReason::kState, &Ballot::confirmed},
  };
  for (const auto& c : cases) {
    for (int bit = 0; bit < 32; ++bit) {
      for (const std::size_t odd : {0u, 2u}) {
        std::vector<Voter> all = voters(3);
        all[odd].ballot.*c.item ^= 1u << bit;
        SCOPED_TRACE(std::string(c.word) + ", bit " + std::to_string(bit));
        expect_refused(count(all), c.reason, c.word);
      }
    }
  }
}

// Two ranks may differ so that the sum stays: the squares still tell.
TEST(Activation, DifferencesThatCancelInTheSumAreFound) {
  std::vector<Voter> all = voters(4);
  all[1].ballot.configuration += 5;
  all[2].ballot.configuration -= 5;
  expect_refused(count(all), RefuseReason::kConfig, "configurations");
}

TEST(Activation, MissingRankRefuses) {
  std::vector<Voter> all = voters(4);
  all[2].votes = false;
  const Verdict v = count(all);
  expect_refused(v, RefuseReason::kContributors, "3 ranks answered where 4 must");
}

TEST(Activation, DuplicateRankRefuses) {
  std::vector<Voter> all = voters(4);
  all[3].rank = 2;
  expect_refused(count(all), RefuseReason::kContributors, "each once");
  // Sum and count are those of 0, 1, 2, 3; only the squares are not.
  std::vector<Voter> cancelling = voters(4);
  cancelling[0].rank = 1;
  cancelling[3].rank = 2;
  expect_refused(count(cancelling), RefuseReason::kContributors, "each once");
  // 0, 4 and 5 have the count, the sum and the squares of 1, 2 and 6.
  std::vector<Voter> seven = voters(7);
  seven[0].rank = 1;
  seven[4].rank = 2;
  seven[5].rank = 6;
  expect_refused(count(seven), RefuseReason::kContributors, "each once");
}

TEST(Activation, EnterAndLeaveDoNotMix) {
  std::vector<Voter> all = voters(3);
  all[1].kind = BallotKind::kLeave;
  expect_refused(count(all, BallotKind::kEnter), RefuseReason::kOther, "leave");
  expect_refused(count(all, BallotKind::kLeave), RefuseReason::kOther, "leave");
  for (Voter& v : all) v.kind = BallotKind::kLeave;
  EXPECT_TRUE(count(all, BallotKind::kLeave).accepted);
  expect_refused(count(all, BallotKind::kEnter), RefuseReason::kOther, "leave");
}

TEST(Activation, ConfirmingIsAnotherRound) {
  std::vector<Voter> all = voters(3);
  all[1].kind = BallotKind::kConfirm;
  expect_refused(count(all, BallotKind::kEnter), RefuseReason::kOther, "enter");
  expect_refused(count(all, BallotKind::kConfirm), RefuseReason::kOther, "enter");
  for (Voter& v : all) v.kind = BallotKind::kConfirm;
  EXPECT_TRUE(count(all, BallotKind::kConfirm).accepted);
  all[2].willing = false;
  expect_refused(count(all, BallotKind::kConfirm), RefuseReason::kGroups, "form a mesh");
}

std::uint64_t furthest(const std::vector<std::uint64_t>& ahead) {
  double sums[kActivationFields] = {};
  for (std::uint32_t r = 0; r < ahead.size(); ++r) {
    double fields[kActivationFields];
    Ballot ballot;
    ballot.ahead = ahead[r];
    write_ballot(ballot, BallotKind::kEnter, r, true, fields);
    for (int i = 0; i < kActivationFields; ++i) sums[i] += fields[i];
  }
  return furthest_ahead(sums, static_cast<std::uint32_t>(ahead.size()));
}

TEST(Activation, FurthestAheadIsNoRanksLess) {
  EXPECT_EQ(furthest({0}), 0u);
  EXPECT_EQ(furthest({3, 3, 3}), 3u) << "nothing is jumped over where all are alike";
  EXPECT_EQ(furthest({1, 0, 0, 0}), 1u);
  EXPECT_EQ(furthest({7, 7, 9, 7, 7}), 9u);
  std::mt19937_64 random = test::seeded("ahead");
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::uint64_t> ahead(1 + random() % 9);
    for (auto& a : ahead) a = random() % 50;
    EXPECT_GE(furthest(ahead), *std::max_element(ahead.begin(), ahead.end()));
  }
}

TEST(Activation, UnwillingRankRefusesForAll) {
  std::vector<Voter> all = voters(3);
  all[0].willing = false;
  expect_refused(count(all), RefuseReason::kConfig, "1 of 3 ranks vote against it");
}

TEST(Activation, SumsThatAreNoneOfAnActivationRefuse) {
  for (const double bad : {-1.0, test::kNan, test::kInf, 0x1p62}) {
    for (int field = 0; field < kActivationFields; ++field) {
      double sums[kActivationFields];
      write_ballot(Ballot{}, BallotKind::kEnter, 0, true, sums);
      ASSERT_TRUE(count_ballots(sums, BallotKind::kEnter, 1).accepted);
      sums[field] = bad;
      EXPECT_FALSE(count_ballots(sums, BallotKind::kEnter, 1).accepted) << field << ' ' << bad;
    }
  }
}

TEST(GateCounters, EveryCellReachesItsPlace) {
  GateCounters counters;
  counters.scanned(metrics::ReductionOp::kReduce);
  counters.passed(metrics::ReductionOp::kReduceScatter);
  counters.bytes(ScanPhase::kLocal, 100);
  counters.bytes(ScanPhase::kReduced, 1000);
  for (std::size_t i = 0; i < metrics::kStages; ++i) {
    for (std::size_t n = 0; n <= i; ++n) counters.error(static_cast<metrics::Stage>(i));
  }
  counters.refused(RefuseReason::kGroups);
  counters.released(metrics::ReleaseReason::kUndecided);
  counters.range_missing();
  counters.range_rescanned();
  counters.range_rescanned();
  counters.external_scale();
  const metrics::Counters c = counters.read();
  EXPECT_EQ(c.reductions_scanned, (std::array<std::uint64_t, 3>{0, 0, 1}));
  EXPECT_EQ(c.reductions_passed, (std::array<std::uint64_t, 3>{0, 1, 0}));
  EXPECT_EQ(c.scanned_bytes, (std::array<std::uint64_t, 2>{100, 1000}));
  for (std::size_t i = 0; i < metrics::kStages; ++i) EXPECT_EQ(c.plugin_errors[i], i + 1);
  EXPECT_EQ(c.enforce_refused[static_cast<std::size_t>(RefuseReason::kGroups)], 1u);
  EXPECT_EQ(c.enforce_released[static_cast<std::size_t>(metrics::ReleaseReason::kUndecided)], 1u);
  EXPECT_EQ(c.ranges_missing, 1u);
  EXPECT_EQ(c.ranges_rescanned, 2u);
  EXPECT_EQ(c.external_scale_changes, 1u);
}

TEST(GateCounters, ThreadsLoseNothing) {
  GateCounters counters;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) counters.bytes(ScanPhase::kLocal, 3);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counters.read().scanned_bytes[0], 120000u);
}

}  // namespace
}  // namespace stepgate::gate

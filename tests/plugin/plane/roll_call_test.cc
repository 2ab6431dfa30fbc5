// Who is up and who is silent, from tables of events.
#include "plugin/core/plane/roll_call.h"

#include <gtest/gtest.h>

namespace stepgate::plane {
namespace {

constexpr Limits kRollLimits{10, 60};

Figures at_step(std::uint64_t reached) {
  Figures f;
  f.reached = reached;
  f.last_step = reached == 0 ? 0 : reached - 1;
  return f;
}

class Roll {
 public:
  explicit Roll(int world) : world_(world), roll_(world, kRollLimits, 0) {}

  // Everybody but `absent` says that it has come to `reached`.
  void all(double now, std::uint64_t reached, int absent = -1) {
    for (int rank = 0; rank < world_; ++rank) {
      if (rank != absent) roll_.heard(rank, at_step(reached), now);
    }
  }
  std::vector<Silence> judge(double now) {
    std::vector<Silence> found;
    roll_.judge(now, &found);
    return found;
  }
  metrics::JobRank rank(int rank, double now) {
    metrics::JobView view;
    roll_.fill(now, &view);
    return view.ranks[static_cast<std::size_t>(rank)];
  }
  RollCall& operator*() { return roll_; }

 private:
  const int world_;
  RollCall roll_;
};

TEST(RollCall, ARankThatReportsIsUpAndNotSilent) {
  Roll roll(3);
  for (int second = 0; second <= 300; ++second) {
    roll.all(second, static_cast<std::uint64_t>(second));
    EXPECT_TRUE(roll.judge(second).empty());
  }
  EXPECT_TRUE(roll.rank(2, 300).up);
  EXPECT_EQ(roll.rank(2, 300).silent_seconds, 0);
  EXPECT_EQ(roll.rank(2, 300).last_step, 299u);
}

TEST(RollCall, OneThatStopsReportingGoesDownThenIsSilentOnce) {
  Roll roll(3);
  roll.all(100, 7);
  double now = 100;
  std::vector<Silence> found;
  for (; now < 161.5; now += 0.5) {
    roll.all(now, 7, 1);
    for (const Silence& s : roll.judge(now)) found.push_back(s);
    EXPECT_EQ(roll.rank(1, now).up, now <= 110) << now;
    EXPECT_EQ(roll.rank(1, now).silent, now > 160) << now;
    EXPECT_TRUE(roll.rank(0, now).up);
  }
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].reached, 7u);
  EXPECT_FALSE(found[0].up);
  EXPECT_GT(found[0].seconds, 60);
}

TEST(RollCall, ABrokenLinkIsDownAtOnceAndAWordBringsItBack) {
  Roll roll(2);
  roll.all(1, 1);
  (*roll).lost(1, "rank 1 died");
  EXPECT_FALSE(roll.rank(1, 1).up);
  roll.all(2, 1, 1);
  EXPECT_TRUE(roll.judge(2).empty()) << "down is not yet silent";
  (*roll).heard(1, at_step(1), 3);
  EXPECT_TRUE(roll.rank(1, 3).up);
}

TEST(RollCall, TheReasonOfABrokenLinkIsInTheFinding) {
  Roll roll(2);
  roll.all(0, 1);
  (*roll).lost(1, "rank 1 died");
  roll.all(61, 1, 1);
  const std::vector<Silence> found = roll.judge(61);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].why, "rank 1 died");
}

TEST(RollCall, OneThatNeverCameIsSilentFromTheStart) {
  Roll roll(3);
  roll.all(59, 1, 2);
  EXPECT_TRUE(roll.judge(59).empty());
  roll.all(61, 1, 2);
  const std::vector<Silence> found = roll.judge(61);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_FALSE(roll.rank(2, 61).seen);
}

// Its process answers all the time; it is the job's thread that does not come to the exchange.
TEST(RollCall, OneThatOthersWaitForAtAnExchangeIsSilent) {
  Roll roll(3);
  roll.all(10, 5);
  std::vector<Silence> found;
  for (double now = 11; now < 72; now += 0.5) {
    roll.all(now, 6, 2);
    (*roll).heard(2, at_step(5), now);
    for (const Silence& s : roll.judge(now)) found.push_back(s);
    EXPECT_TRUE(roll.rank(2, now).up);
  }
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_TRUE(found[0].up);
  EXPECT_EQ(found[0].reached, 5u);
  EXPECT_EQ(found[0].others, 6u);
  roll.all(72, 6);
  roll.judge(72);
  EXPECT_FALSE(roll.rank(2, 72).silent) << "it came";
  EXPECT_EQ(roll.rank(2, 72).silent_seconds, 0);
}

// Ranks that all wait for data are slow, not silent; neither is one that is behind and moves.
TEST(RollCall, SlownessIsNoSilence) {
  Roll roll(2);
  for (double now = 0; now < 200; ++now) {
    roll.all(now, 5);
    EXPECT_TRUE(roll.judge(now).empty());
  }
  for (double now = 200; now < 500; ++now) {
    (*roll).heard(0, at_step(1000), now);
    (*roll).heard(1, at_step(static_cast<std::uint64_t>(now) / 50), now);
    EXPECT_TRUE(roll.judge(now).empty()) << now;
  }
}

TEST(RollCall, ASecondSilenceIsASecondFinding) {
  Roll roll(2);
  roll.all(0, 1);
  roll.all(61, 1, 1);
  EXPECT_EQ(roll.judge(61).size(), 1u);
  roll.all(62, 1);
  EXPECT_TRUE(roll.judge(62).empty());
  roll.all(130, 1, 1);
  EXPECT_EQ(roll.judge(130).size(), 1u);
}

TEST(RollCall, AGoodbyeIsNeitherUpNorSilent) {
  Roll roll(2);
  roll.all(0, 5);
  (*roll).left(1, 1);
  (*roll).lost(1, "the link ends");
  for (double now = 2; now < 200; ++now) {
    roll.all(now, 9, 1);
    EXPECT_TRUE(roll.judge(now).empty());
  }
  EXPECT_FALSE(roll.rank(1, 200).up);
  EXPECT_EQ(roll.rank(1, 200).silent_seconds, 0);
}

// What a rank that has left had come to holds nobody else up.
TEST(RollCall, OneThatEndedFurtherOnMakesNobodySilent) {
  Roll roll(2);
  (*roll).heard(1, at_step(100), 0);
  (*roll).left(1, 0);
  for (double now = 0; now < 200; ++now) {
    (*roll).heard(0, at_step(50), now);
    EXPECT_TRUE(roll.judge(now).empty());
  }
}

}  // namespace
}  // namespace stepgate::plane

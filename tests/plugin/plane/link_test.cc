// One link, over a made-up transport.
#include "plugin/core/plane/link.h"

#include <gtest/gtest.h>

#include "tests/plugin/plane/fake_pairs.h"

namespace stepgate::plane {
namespace {

struct Ends {
  test::FakePairs fake;
  const sgt_unique_id id = fake.fresh_id();
  std::atomic<bool> stop{false};
  Link zero{fake.table(), 0, stop}, other{fake.table(), 1, stop};

  void open() {
    ASSERT_TRUE(zero.open(id, 4));
    ASSERT_TRUE(other.open(id, 10));
  }
};

Frame numbered(std::uint64_t turn) {
  Frame f;
  f.turn = turn;
  return f;
}

TEST(Link, FramesGoBothWaysTurnByTurn) {
  Ends ends;
  ends.open();
  EXPECT_EQ(ends.zero.look(), Turn::kIdle);
  for (std::uint64_t turn = 1; turn < 4; ++turn) {
    ASSERT_TRUE(ends.zero.begin(numbered(100 + turn)));
    EXPECT_EQ(ends.zero.look(), Turn::kUnderWay);
    ASSERT_TRUE(ends.other.begin(numbered(turn)));
    EXPECT_EQ(ends.other.look(), Turn::kDone);
    EXPECT_EQ(ends.zero.look(), Turn::kDone);
    EXPECT_EQ(ends.zero.theirs().turn, turn);
    EXPECT_EQ(ends.other.theirs().turn, 100 + turn);
    EXPECT_EQ(ends.zero.look(), Turn::kIdle) << "done is said once";
  }
}

TEST(Link, ABreakIsASentenceAndEndsTheWorld) {
  Ends ends;
  ends.open();
  ASSERT_TRUE(ends.zero.begin(Frame{}));
  ends.fake.break_pair(ends.id, "rank 1 died");
  EXPECT_EQ(ends.zero.look(), Turn::kBroken);
  EXPECT_EQ(ends.zero.error(), "rank 1 died");
  EXPECT_FALSE(ends.zero.usable());
  EXPECT_FALSE(ends.zero.begin(Frame{}));
  EXPECT_EQ(ends.fake.worlds(), 1) << "the broken end let its world go";
}

TEST(Link, ClosingOneEndBreaksTheOther) {
  Ends ends;
  ends.open();
  ASSERT_TRUE(ends.other.begin(Frame{}));
  ends.zero.close();
  EXPECT_EQ(ends.other.look(), Turn::kBroken);
  EXPECT_EQ(ends.fake.worlds(), 0);
}

TEST(Link, OneTurnAtATime) {
  Ends ends;
  ends.open();
  ASSERT_TRUE(ends.zero.begin(Frame{}));
  EXPECT_FALSE(ends.zero.begin(Frame{}));
}

TEST(Link, AFrameOfAnotherBuildBreaksIt) {
  Ends ends;
  ends.open();
  Frame strange;
  strange.magic = 1;
  ASSERT_TRUE(ends.zero.begin(Frame{}));
  ASSERT_TRUE(ends.other.begin(strange));
  EXPECT_EQ(ends.zero.look(), Turn::kBroken);
  EXPECT_EQ(ends.zero.error(), "the other rank runs another build");
}

TEST(Link, AFrameThatClaimsTooManyOffendersBreaksIt) {
  Ends ends;
  ends.open();
  Frame strange;
  strange.offenders = kFrameOffenders + 1;
  ASSERT_TRUE(ends.zero.begin(Frame{}));
  ASSERT_TRUE(ends.other.begin(strange));
  EXPECT_EQ(ends.zero.look(), Turn::kBroken);
}

TEST(Link, NobodyThereIsASentence) {
  Ends ends;
  ends.fake.refuse_to_open(true);
  EXPECT_FALSE(ends.zero.open(ends.id, 4));
  EXPECT_EQ(ends.zero.error(), "nobody came");
  EXPECT_FALSE(ends.zero.usable());
}

// A process that ends does not wait for a caller that was stopped on its way here.
TEST(Link, OpeningIsCalledOff) {
  Ends ends;
  ends.fake.open_only_when_cancelled(true);
  ends.stop = true;
  EXPECT_FALSE(ends.zero.open(ends.id, 3600));
  EXPECT_EQ(ends.zero.error(), "called off");
}

TEST(Link, AsksForTcpAndItsOwnDeadline) {
  Ends ends;
  ends.open();
  EXPECT_EQ(ends.fake.deadlines(), (std::vector<double>{4, 10}));
  EXPECT_EQ(ends.fake.transports(), (std::vector<std::string>{"tcp", "tcp"}));
}

}  // namespace
}  // namespace stepgate::plane

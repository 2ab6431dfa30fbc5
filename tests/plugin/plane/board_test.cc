// What rank 0 has learnt, as the publisher and the C API read it.
#include "plugin/core/plane/board.h"

#include <gtest/gtest.h>

#include <cstring>

namespace stepgate::plane {
namespace {

constexpr Limits kLimits{10, 60};

Offender offender(std::uint64_t step, int rank, const std::string& parameter, const char* gate = "0") {
  Offender o;
  o.step = step;
  o.rank = rank;
  o.nan = 1;
  std::strncpy(o.gate, gate, sizeof o.gate - 1);
  std::strncpy(o.parameter, parameter.c_str(), sizeof o.parameter - 1);
  return o;
}

std::string names(const std::vector<Offender>& list) {
  std::string text;
  for (const Offender& o : list) text += std::to_string(o.rank) + o.parameter + " ";
  return text;
}

TEST(OffenderBook, GivesOneStepByRankAndInEachRanksOrder) {
  OffenderBook book;
  for (const Offender& o : {offender(4, 2, "b"), offender(4, 0, "x"), offender(5, 1, "late"),
                            offender(4, 2, "a"), offender(4, 1, "y", "other gate")}) {
    book.add(o);
  }
  EXPECT_EQ(names(book.of_step("0", 4)), "0x 2b 2a ");
  EXPECT_EQ(names(book.of_step("0", 0)), "1late ") << "step 0: the newest that has any";
  EXPECT_EQ(names(book.of_step("other gate", 0)), "1y ");
  EXPECT_EQ(names(book.of_step("0", 6)), "");
}

TEST(OffenderBook, IsBoundedAndCountsWhatItDrops) {
  OffenderBook book;
  for (std::size_t i = 0; i < kBookOffenders + 3; ++i) book.add(offender(i + 1, 0, "p"));
  EXPECT_EQ(book.size(), kBookOffenders);
  EXPECT_EQ(book.lost(), 3u);
  EXPECT_TRUE(book.of_step("0", 3).empty()) << "the oldest go first";
  EXPECT_EQ(book.of_step("0", 4).size(), 1u);
}

Frame frame_of(int rank, std::uint64_t reached) {
  Frame f;
  f.rank = rank;
  f.figures.reached = reached;
  return f;
}

TEST(Board, AFrameBringsFiguresAndOffenders) {
  Board board(3, kLimits, 0);
  Frame f = frame_of(2, 8);
  f.figures.last_step = 7;
  f.figures.scale = 128;
  f.figures.skipped = {1, 2, 3, 4};
  f.offenders = 2;
  f.offender[0] = offender(7, 99, "w");  // what a frame says of its rank does not count
  f.offender[1] = offender(7, 2, "v");
  board.take(f, 1);
  board.judge(1);
  metrics::JobView view;
  board.read(&view);
  ASSERT_EQ(view.ranks.size(), 3u);
  EXPECT_TRUE(view.ranks[2].up);
  EXPECT_EQ(view.ranks[2].last_step, 7u);
  EXPECT_EQ(view.ranks[2].loss_scale, 128);
  EXPECT_EQ(view.ranks[2].skipped[3], 4u);
  EXPECT_FALSE(view.ranks[1].up);
  EXPECT_EQ(names(board.offenders("0", 7)), "2w 2v ");
}

// A frame is another process's memory: its counts and texts are not to be trusted.
TEST(Board, AFrameWithImpossibleFiguresIsCut) {
  Board board(2, kLimits, 0);
  Frame f = frame_of(1, 1);
  f.offenders = 1000000;
  for (Offender& o : f.offender) {
    o.step = 1;
    std::memset(o.gate, 'g', sizeof o.gate);
    std::memset(o.parameter, 'p', sizeof o.parameter);
  }
  board.take(f, 1);
  const std::vector<Offender> list = board.offenders(std::string(63, 'g'), 1);
  ASSERT_EQ(list.size(), kFrameOffenders);
  EXPECT_EQ(std::strlen(list[0].parameter), 127u);
}

TEST(Board, APeersNamesAreTextWhateverItSends) {
  Board board(2, kLimits, 0);
  Frame f = frame_of(1, 1);
  f.offenders = 1;
  f.offender[0].step = 1;
  std::strcpy(f.offender[0].gate, "g\n");
  std::strcpy(f.offender[0].range, "\x1b[2J");
  std::strcpy(f.offender[0].parameter, "p\xff");
  board.take(f, 1);
  const std::vector<Offender> list = board.offenders("g?", 1);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_STREQ(list[0].range, "?[2J");
  EXPECT_STREQ(list[0].parameter, "p?");
}

TEST(Board, ASilenceIsOneAnomalyAndOneSentence) {
  Board board(2, kLimits, 0);
  board.take(frame_of(1, 41), 5);
  board.lost(1, "rank 1 died");
  board.heard(0, frame_of(0, 42).figures, 70);
  const std::vector<std::string> lines = board.judge(70);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            "rank 1 is silent: for 65 s nothing was heard from it; the last exchange that it came to is that "
            "of step 41; the others are at step 42 (rank 1 died)");
  std::vector<metrics::Anomaly> found;
  board.take_anomalies(&found);
  board.take_anomalies(&found);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, metrics::AnomalyKind::kSilentRank);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].step, 41u);
}

TEST(Board, ARankThatDoesNotComeIsNamedWithTheStepThatWaits) {
  Board board(2, kLimits, 0);
  for (double now = 0; now <= 61; now += 1) {
    board.heard(0, frame_of(0, 9).figures, now);
    board.take(frame_of(1, 8), now);
    const std::vector<std::string> lines = board.judge(now);
    EXPECT_EQ(lines.size(), now > 60 ? 1u : 0u);
    if (!lines.empty()) {
      EXPECT_EQ(lines[0],
                "rank 1 is silent: for 61 s its process answers, but it has not come to the exchange of step "
                "9; the others are at step 9");
    }
  }
}

TEST(Board, WhatRanksHadNoRoomForIsSummed) {
  Board board(3, kLimits, 0);
  Frame f = frame_of(2, 1);
  f.offenders_lost = 5;
  board.take(f, 1);
  f.offenders_lost = 7;  // a total, not a difference
  board.take(f, 2);
  board.add({}, 1);
  board.add({}, 1);
  metrics::JobView view;
  board.read(&view);
  EXPECT_EQ(view.offenders_lost, 9u);
}

}  // namespace
}  // namespace stepgate::plane

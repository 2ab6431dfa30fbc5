// The coordinator's rules as tables of events and verdicts: no sockets, and time is a number.
#include "collectives/ucx/coordinator.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace stepgate::transport::testing {
namespace {

constexpr Key kKey{7};

class CoordinatorTest : public ::testing::Test {
 protected:
  struct Sent {
    int to;
    uint32_t type;
    std::string body;
  };

  // Connection of rank r is 100 + r.
  bool hello(int rank, int size, double timeout = 10, int connection = -1) {
    const Hello hello{kKey, kProtocolVersion, rank, size, timeout};
    return tell(connection < 0 ? 100 + rank : connection, kHello, pack(hello));
  }
  bool tell(int connection, uint32_t type, const std::string& body) {
    return coordinator_.receive(connection, {type, body}, now_);
  }
  void report(int rank, sgt_status status, int culprit) {
    tell(100 + rank, kReport, pack_failure({status, culprit, "words of rank " + std::to_string(rank)}));
  }
  void waits(int rank, int whom) { tell(100 + rank, kWaits, pack(static_cast<int32_t>(whom))); }
  void suspect(int rank, int whom) { tell(100 + rank, kSuspect, pack(static_cast<int32_t>(whom))); }
  void pass(double s) {
    now_ += seconds(s);
    coordinator_.tick(now_);
  }
  void start(int size) {
    for (int rank = 0; rank < size; ++rank) ASSERT_TRUE(hello(rank, size));
    sent_.clear();
  }
  int count(uint32_t type) const {
    return static_cast<int>(
        std::count_if(sent_.begin(), sent_.end(), [type](const Sent& s) { return s.type == type; }));
  }
  // The one verdict (or refusal) that everybody heard, in the same words.
  Failure verdict(uint32_t type = kVerdict) const {
    Failure first;
    for (const Sent& sent : sent_) {
      if (sent.type != type) continue;
      Failure failure;
      EXPECT_TRUE(unpack_failure(sent.body, &failure));
      if (first.status == SGT_OK) first = failure;
      EXPECT_EQ(failure.message, first.message);
    }
    return first;
  }

  Time now_{seconds(1000)};
  std::vector<Sent> sent_;
  Coordinator coordinator_{kKey, [this](int to, uint32_t type, const std::string& body) {
                             sent_.push_back({to, type, body});
                           }};
};

// A rank's own clock may run out just before the coordinator's: the late one still hears who was missing.
TEST_F(CoordinatorTest, AReportBeforeAllHaveArrivedNamesTheMissing) {
  EXPECT_TRUE(hello(0, 2));
  EXPECT_TRUE(tell(100, kBlob, "zero"));
  report(0, SGT_TIMEOUT, -1);
  const Failure refused = verdict(kRefused);
  EXPECT_EQ(refused.status, SGT_TIMEOUT);
  EXPECT_EQ(refused.culprit, 1);
  EXPECT_NE(refused.message.find("missing: rank 1"), std::string::npos) << refused.message;
}

TEST_F(CoordinatorTest, HandsOutTheSharesByRankOnceTheLastHasArrived) {
  EXPECT_TRUE(hello(1, 2));
  EXPECT_TRUE(tell(101, kBlob, "one"));
  EXPECT_TRUE(hello(0, 2));
  EXPECT_TRUE(sent_.empty());
  EXPECT_TRUE(tell(100, kBlob, "zero"));
  ASSERT_EQ(count(kBlobs), 2);
  std::vector<std::string> shares;
  ASSERT_TRUE(unpack_list(sent_[0].body, &shares));
  EXPECT_EQ(shares, (std::vector<std::string>{"zero", "one"}));
}

TEST_F(CoordinatorTest, StrangersAreDropped) {
  EXPECT_FALSE(tell(5, kBlob, "no hello"));
  EXPECT_FALSE(tell(5, kHello, "short"));
  EXPECT_FALSE(tell(5, kHello, pack(Hello{Key{8}, kProtocolVersion, 0, 2, 1})));
  EXPECT_FALSE(tell(5, 4711, ""));
  EXPECT_TRUE(sent_.empty());
}

TEST_F(CoordinatorTest, AWrongSizeRefusesEverybody) {
  hello(0, 3);
  hello(1, 2);
  hello(2, 3);
  EXPECT_EQ(count(kRefused), 3);
  EXPECT_EQ(verdict(kRefused).status, SGT_INVALID);
  EXPECT_EQ(verdict(kRefused).culprit, 1);
  EXPECT_NE(verdict(kRefused).message.find("rank 1 was told a world of 2 ranks"), std::string::npos);
}

TEST_F(CoordinatorTest, ARankTwiceRefusesEverybody) {
  hello(0, 3);
  hello(1, 3);
  hello(1, 3, 10, 7);
  EXPECT_EQ(count(kRefused), 3);
  EXPECT_EQ(verdict(kRefused).culprit, 1);
}

TEST_F(CoordinatorTest, ARunningWorldIsNotHarmedByALateDuplicate) {
  start(2);
  hello(1, 2, 10, 7);
  ASSERT_EQ(count(kRefused), 1);
  EXPECT_EQ(sent_[0].to, 7);
  EXPECT_EQ(count(kVerdict), 0);
}

TEST_F(CoordinatorTest, TheEarliestDeadlineNamesTheMissing) {
  hello(0, 4, 50);
  hello(2, 4, 5);
  pass(4.9);
  EXPECT_EQ(count(kRefused), 0);
  pass(0.2);
  EXPECT_EQ(count(kRefused), 2);
  EXPECT_EQ(verdict(kRefused).status, SGT_TIMEOUT);
  EXPECT_EQ(verdict(kRefused).culprit, 1);
  EXPECT_NE(verdict(kRefused).message.find("missing: rank 1, 3"), std::string::npos)
      << verdict(kRefused).message;
  hello(3, 4);  // comes late, hears the same
  EXPECT_EQ(count(kRefused), 3);
}

TEST_F(CoordinatorTest, ADeathWhileGatheringRefusesEverybody) {
  hello(0, 3);
  hello(1, 3);
  coordinator_.closed(101, now_);
  EXPECT_EQ(verdict(kRefused).status, SGT_PEER_DEAD);
  EXPECT_EQ(verdict(kRefused).culprit, 1);
}

TEST_F(CoordinatorTest, ARankThatStopsBetweenTwoExchangesIsNamed) {
  start(3);
  tell(100, kBlob, "a");
  tell(102, kBlob, "c");
  report(0, SGT_TIMEOUT, -1);
  EXPECT_EQ(verdict().status, SGT_TIMEOUT);
  EXPECT_EQ(verdict().culprit, 1);
}

TEST_F(CoordinatorTest, AClosedConnectionIsADeathUnlessTheRankLeft) {
  start(3);
  tell(101, kLeave, "");
  coordinator_.closed(101, now_);
  EXPECT_EQ(count(kVerdict), 0);
  coordinator_.closed(102, now_);
  EXPECT_EQ(verdict().culprit, 2);
  EXPECT_EQ(verdict().status, SGT_PEER_DEAD);
}

TEST_F(CoordinatorTest, TheFirstVerdictStands) {
  start(3);
  report(0, SGT_PEER_DEAD, 2);
  report(1, SGT_PEER_DEAD, 0);
  coordinator_.closed(100, now_);
  EXPECT_EQ(count(kVerdict), 3);
  EXPECT_EQ(verdict().culprit, 2);
}

// Rank 1 gave up on rank 2 and closed its endpoints; rank 0 sees rank 1's endpoint fail.
TEST_F(CoordinatorTest, ARankThatGaveUpIsNotBlamedForIt) {
  start(3);
  suspect(0, 1);
  pass(0.1);
  report(1, SGT_PEER_DEAD, 2);
  pass(1);
  EXPECT_EQ(count(kVerdict), 3);
  EXPECT_EQ(verdict().culprit, 2);
}

TEST_F(CoordinatorTest, ASuspicionThatNothingContradictsBecomesTheVerdict) {
  start(3);
  suspect(0, 1);
  pass(0.1);
  EXPECT_EQ(count(kVerdict), 0);
  pass(0.3);
  EXPECT_EQ(verdict().status, SGT_PEER_DEAD);
  EXPECT_EQ(verdict().culprit, 1);
}

// 0 waits for 1, 1 waits for 2, 2 waits for 3, and 3 is stopped: all hear that 3 is the one.
TEST_F(CoordinatorTest, ATimeoutNamesTheEndOfTheChainOfWaits) {
  start(4);
  report(0, SGT_TIMEOUT, 1);
  EXPECT_EQ(count(kQuery), 4);
  waits(1, 2);
  waits(2, 3);
  EXPECT_EQ(count(kVerdict), 0);
  pass(0.6);
  EXPECT_EQ(verdict().status, SGT_TIMEOUT);
  EXPECT_EQ(verdict().culprit, 3);
  EXPECT_NE(verdict().message.find("words of rank 0"), std::string::npos);
}

TEST_F(CoordinatorTest, ARankThatWaitsForNobodyEndsTheChainAtOnce) {
  start(3);
  report(0, SGT_TIMEOUT, 1);
  waits(0, 1);
  waits(1, 2);
  waits(2, -1);
  pass(0);
  EXPECT_EQ(verdict().culprit, 2);
}

TEST_F(CoordinatorTest, ACircleOfWaitsStillEnds) {
  start(2);
  report(0, SGT_TIMEOUT, 1);
  waits(1, 0);
  pass(0.6);
  EXPECT_EQ(verdict().status, SGT_TIMEOUT);
}

TEST_F(CoordinatorTest, AllHearWhenAllHaveLeft) {
  start(2);
  tell(100, kLeave, "");
  EXPECT_EQ(count(kAllLeft), 0);
  tell(101, kLeave, "");
  EXPECT_EQ(count(kAllLeft), 2);
  coordinator_.closed(100, now_);
  EXPECT_FALSE(coordinator_.over(now_));
  coordinator_.closed(101, now_);
  EXPECT_TRUE(coordinator_.over(now_));
  EXPECT_EQ(count(kVerdict), 0);
}

TEST_F(CoordinatorTest, NonsenseFromAKnownRankEndsItsConnection) {
  start(2);
  EXPECT_FALSE(tell(100, kReport, "x"));
  EXPECT_FALSE(tell(100, kReport, pack_failure({SGT_OK, 0, ""})));
  EXPECT_FALSE(tell(100, kWaits, "long text"));
  EXPECT_FALSE(tell(100, kSuspect, pack(int32_t{99})));
  EXPECT_FALSE(hello(0, 2)) << "hello twice on one connection";
}

}  // namespace
}  // namespace stepgate::transport::testing

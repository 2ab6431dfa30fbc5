// Rank 0's side and another's together: the rendezvous is real, the transport is made up, time is the
// test's.
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <mutex>

#include "plugin/core/plane/hub.h"
#include "plugin/core/plane/sockets.h"
#include "tests/plugin/plane/fake_pairs.h"

namespace stepgate::plane {
namespace {

constexpr Limits kSideLimits{10, 60};

class ScriptedGate final : public RankSource {
 public:
  const std::string& name() const override { return name_; }
  std::uint64_t reached() const override { return reached_; }
  bool enforcing() const override { return true; }
  std::uint64_t failures() const override { return 0; }
  std::size_t read_steps(std::uint64_t, StepRecord*, std::size_t, std::uint64_t* lost) override {
    *lost = 0;
    return 0;
  }
  void take_offenders(std::vector<stepgate_offender>* out, std::uint64_t*) override {
    out->swap(offenders_);
    offenders_.clear();
  }
  void offend(std::uint64_t step, const std::string& parameter) {
    stepgate_offender o{};
    o.step = step;
    std::strncpy(o.parameter, parameter.c_str(), sizeof o.parameter - 1);
    offenders_.push_back(o);
  }
  std::uint64_t reached_ = 0;

 private:
  const std::string name_ = "0";
  std::vector<stepgate_offender> offenders_;
};

// Rank 0 and rank 1 of a world of two.
struct Job {
  test::FakePairs fake;
  std::uint16_t port = free_port();
  std::atomic<bool> stop{false};
  Board board{2, kSideLimits, 100};
  Sampler sampler_zero, sampler_one;
  ScriptedGate gate_zero, gate_one;
  std::mutex said_mutex;  // both sides speak
  std::vector<std::string> said;
  std::unique_ptr<Hub> hub;
  std::unique_ptr<Spoke> spoke;
  double now = 100;

  Job() {
    sampler_zero.add(&gate_zero);
    sampler_one.add(&gate_one);
    hub = std::make_unique<Hub>(seat(0, "run"), fake.table(), sampler_zero, board, stop, say());
    spoke = make_spoke("run");
  }
  static std::uint16_t free_port() { return RendezvousServer("127.0.0.1", 0, "", 2).port(); }
  Seat seat(int rank, const std::string& key) const { return {rank, 2, key, "127.0.0.1", port, 10}; }
  Say say() {
    return [this](const std::string& line) {
      const std::lock_guard lock(said_mutex);
      said.push_back(line);
    };
  }
  std::unique_ptr<Spoke> make_spoke(const std::string& key) {
    return std::make_unique<Spoke>(seat(1, key), fake.table(), sampler_one, stop, say());
  }

  // One look of each; rank 1's may wait for rank 0's.
  void both() {
    auto one = std::async(std::launch::async, [this, at = now] { spoke->tick(at); });
    do hub->tick(now);
    while (one.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready);
    hub->tick(now);
  }
  void pass(double seconds) {
    for (const double end = now + seconds; now < end; now += 0.1) both();
  }
  metrics::JobRank rank(int r) {
    metrics::JobView view;
    board.read(&view);
    return view.ranks[static_cast<std::size_t>(r)];
  }
};

TEST(Sides, FiguresOfBothArriveOnTheBoard) {
  Job job;
  job.gate_zero.reached_ = 5;
  job.gate_one.reached_ = 4;
  job.pass(2);
  EXPECT_TRUE(job.rank(0).up);
  EXPECT_TRUE(job.rank(1).up);
  EXPECT_EQ(job.rank(0).reached_step, 5u);
  EXPECT_EQ(job.rank(1).reached_step, 4u);
  job.gate_one.reached_ = 5;
  job.pass(1);
  EXPECT_EQ(job.rank(1).reached_step, 5u);
}

TEST(Sides, RankZeroGivesUpALinkSoonerThanTheOthers) {
  Job job;
  job.pass(1);
  EXPECT_EQ(job.fake.deadlines().size(), 2u);
  std::vector<double> deadlines = job.fake.deadlines();
  std::sort(deadlines.begin(), deadlines.end());
  EXPECT_EQ(deadlines, (std::vector<double>{4, 10}));
}

// More offenders than a frame holds: all of them arrive, in order, without waiting for a report's turn.
TEST(Sides, AListLongerThanAFrameArrivesWhole) {
  Job job;
  job.pass(1);
  const std::size_t many = 5 * kFrameOffenders + 3;
  for (std::size_t i = 0; i < many; ++i) job.gate_one.offend(9, "p" + std::to_string(i));
  job.gate_zero.offend(9, "mine");
  job.pass(1.5);
  const std::vector<Offender> list = job.board.offenders("0", 9);
  ASSERT_EQ(list.size(), many + 1);
  EXPECT_STREQ(list[0].parameter, "mine");
  for (std::size_t i = 0; i < many; ++i) EXPECT_EQ(list[i + 1].parameter, "p" + std::to_string(i));
  EXPECT_EQ(list[1].rank, 1);
}

TEST(Sides, ABrokenLinkIsDownAndThenMetAgain) {
  Job job;
  job.pass(1);
  job.fake.break_all("rank 1 died");
  job.hub->tick(job.now);
  EXPECT_FALSE(job.rank(1).up);
  job.gate_one.reached_ = 8;
  job.pass(3);
  EXPECT_TRUE(job.rank(1).up);
  EXPECT_EQ(job.rank(1).reached_step, 8u);
  EXPECT_EQ(job.fake.worlds(), 2);
  EXPECT_TRUE(job.said.empty()) << job.said.front();
}

// It was stopped for a while and calls again while rank 0 still holds the old link.
TEST(Sides, ASecondCallReplacesTheLink) {
  Job job;
  job.pass(1);
  job.spoke.reset();
  job.spoke = job.make_spoke("run");
  job.pass(1);
  EXPECT_TRUE(job.rank(1).up);
  EXPECT_EQ(job.fake.worlds(), 2);
}

TEST(Sides, ARankOfAnotherRestartIsKeptOutAndBothSayWhy) {
  Job job;
  job.spoke = job.make_spoke("run restart 0");
  job.pass(20);
  EXPECT_FALSE(job.rank(1).seen);
  EXPECT_EQ(job.said.size(), 2u) << "each once";
  for (const std::string& line : job.said) {
    EXPECT_NE(line.find("run 'run restart 0'; rank 0 is of run 'run'"), std::string::npos) << line;
  }
  EXPECT_EQ(job.fake.listeners(), 1) << "each call would leave a listener behind";
  EXPECT_EQ(job.fake.closed(), 0);
  job.spoke.reset();
  EXPECT_EQ(job.fake.closed(), 1) << "its listener stays for ever";
}

// Rank 0 is not there yet, or no more: quiet for as long as that may be normal, then one line.
TEST(Sides, ARankWithoutRankZeroTriesOnAndSaysSoOnce) {
  Job job;
  job.hub.reset();
  for (double end = job.now + 9; job.now < end; job.now += 0.1) job.spoke->tick(job.now);
  EXPECT_TRUE(job.said.empty());
  for (double end = job.now + 30; job.now < end; job.now += 0.1) job.spoke->tick(job.now);
  ASSERT_EQ(job.said.size(), 1u);
  EXPECT_NE(job.said[0].find("the plane does not reach rank 0: cannot reach 127.0.0.1:"), std::string::npos);
  job.hub = std::make_unique<Hub>(job.seat(0, "run"), job.fake.table(), job.sampler_zero, job.board, job.stop,
                                  job.say());
  job.pass(3);
  EXPECT_TRUE(job.rank(1).up);
}

TEST(Sides, ALinkThatDoesNotOpenIsTriedAgain) {
  Job job;
  job.fake.refuse_to_open(true);
  job.pass(3);
  EXPECT_FALSE(job.rank(1).seen);
  job.fake.refuse_to_open(false);
  job.pass(4);
  EXPECT_TRUE(job.rank(1).up);
}

// A job's ranks call at once. What a tick has no time for waits, so that the links of those who are in are
// looked at in between.
TEST(Sides, ATickLetsInAsManyAsItHasTimeFor) {
  constexpr int kCallers = 3;
  Job job;
  job.hub.reset();
  Board board(kCallers + 1, kSideLimits, 100);
  Seat seat = job.seat(0, "run");
  seat.world = kCallers + 1;
  Hub hub(seat, job.fake.table(), job.sampler_zero, board, job.stop, job.say());
  std::vector<std::future<std::string>> answers;
  for (int rank = 1; rank <= kCallers; ++rank) {
    answers.push_back(std::async(std::launch::async, [&job, rank, id = job.fake.fresh_id()] {
      RendezvousCall call(job.stop);
      std::string error;
      bool refused = false;
      const bool in = call.connect("127.0.0.1", job.port, 60, &error) &&
                      call.ask(make_hello("run", rank, kCallers + 1, id), 60, &refused, &error);
      return in ? "" : error;
    }));
  }
  job.fake.open_slowly(0.5);  // longer than a tick has for callers
  for (const double until = steady_seconds() + 60;
       job.fake.worlds() < kCallers && steady_seconds() < until;) {
    const int before = job.fake.worlds();
    hub.tick(job.now);
    EXPECT_LE(job.fake.worlds(), before + 1);
  }
  for (auto& answer : answers) EXPECT_EQ(answer.get(), "");
  EXPECT_EQ(job.fake.worlds(), kCallers);
}

TEST(Sides, AGoodbyeBringsTheLastFiguresAndOffenders) {
  Job job;
  job.pass(1);
  job.gate_one.reached_ = 77;
  for (std::size_t i = 0; i < kFrameOffenders + 1; ++i) job.gate_one.offend(3, "p");
  int looks = 0;
  while (!job.spoke->leave(job.now) && ++looks < 100) job.hub->tick(job.now);
  job.hub->tick(job.now);
  EXPECT_LT(looks, 20);
  EXPECT_EQ(job.rank(1).reached_step, 77u);
  EXPECT_FALSE(job.rank(1).up);
  EXPECT_EQ(job.board.offenders("0", 3).size(), kFrameOffenders + 1);
  for (const double end = job.now + 200; job.now < end; ++job.now) job.hub->tick(job.now);
  EXPECT_FALSE(job.rank(1).silent);
  EXPECT_TRUE(job.said.empty());
}

// A thousand links that do not answer are not closed one after the other by a process that ends.
TEST(Sides, WhatRankZeroForsakesIsNotClosed) {
  Job job;
  job.pass(1);
  job.hub->forsake();
  job.hub.reset();
  EXPECT_EQ(job.fake.worlds(), 2);
  job.spoke.reset();
  EXPECT_EQ(job.fake.worlds(), 1);
}

TEST(Sides, RankZeroThatIsToldToStopLooksAtNoFurtherLink) {
  Job job;
  job.pass(1);
  job.fake.break_all("rank 1 died");
  job.stop = true;
  job.hub->tick(job.now);
  EXPECT_EQ(job.fake.worlds(), 2) << "it closed one, which takes seconds where the other end is stuck";
  EXPECT_TRUE(job.hub->leave(job.now));
  EXPECT_EQ(job.fake.worlds(), 1);
}

TEST(Sides, AStoppedRankIsSilentAndSaidToBe) {
  Job job;
  job.pass(1);
  for (const double end = job.now + 70; job.now < end; job.now += 0.5) job.hub->tick(job.now);
  EXPECT_TRUE(job.rank(1).silent);
  EXPECT_FALSE(job.rank(1).up);
  ASSERT_EQ(job.said.size(), 1u);
  EXPECT_NE(job.said[0].find("rank 1 is silent"), std::string::npos);
}

}  // namespace
}  // namespace stepgate::plane

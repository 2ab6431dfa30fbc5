// Operations in flight together, worlds side by side, progress without waiting, abort from elsewhere.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/collectives/ucx/ranks.h"
#include "tests/collectives/ucx/values.h"

namespace stepgate::transport::testing {
namespace {

class Flight : public ::testing::TestWithParam<const char*> {
 protected:
  Setting setting(double timeout = 60) const { return {GetParam(), timeout}; }
};

INSTANTIATE_TEST_SUITE_P(All, Flight, ::testing::Values("tcp", "shm"),
                         [](const auto& i) { return std::string(i.param); });

sgt_op* begin_sum(Rank& rank, std::vector<float>& data) {
  sgt_op* op = nullptr;
  sgt_error error{};
  EXPECT_EQ(transport().allreduce(rank.world, data.data(), data.data(), data.size(), SGT_FLOAT32, SGT_SUM,
                                  &op, &error),
            SGT_OK)
      << error.message;
  return op;
}

// Short and long ones together, finished in another order than begun, and driven by one of them alone.
TEST_P(Flight, SeveralOperationsAreUnderWayAtOnce) {
  run_ranks(3, setting(), [](Rank& rank) {
    std::vector<std::vector<float>> data;
    for (const size_t count : {size_t{1}, size_t{300000}, size_t{0}, size_t{7}, size_t{50000}})
      data.emplace_back(count, static_cast<float>(rank.rank + 1));
    std::vector<sgt_op*> ops;
    ops.reserve(data.size());
    for (auto& values : data) ops.push_back(begin_sum(rank, values));
    sgt_error error{};
    for (size_t i = ops.size(); i-- > 0;) {
      ASSERT_EQ(transport().op_wait(ops[i], &error), SGT_OK) << error.message;
      for (const float value : data[i]) ASSERT_EQ(value, 6.0f);
    }
    for (sgt_op* op : ops) {
      EXPECT_EQ(transport().op_progress(op, &error), SGT_OK) << "a final status may be asked for again";
      transport().op_release(op);
    }
  });
}

TEST_P(Flight, ProgressAloneCompletesAnOperation) {
  run_ranks(4, setting(), [](Rank& rank) {
    std::vector<float> data(100000, 1.0f);
    sgt_op* op = begin_sum(rank, data);
    sgt_error error{};
    sgt_status status;
    while ((status = transport().op_progress(op, &error)) == SGT_IN_PROGRESS) std::this_thread::yield();
    EXPECT_EQ(status, SGT_OK) << error.message;
    EXPECT_EQ(data.back(), 4.0f);
    transport().op_release(op);
  });
}

TEST_P(Flight, ProgressOnOneOperationAlsoMovesTheOthers) {
  run_ranks(2, setting(), [](Rank& rank) {
    std::vector<float> first(100000, 1.0f), second(100000, 2.0f);
    sgt_op* a = begin_sum(rank, first);
    sgt_op* b = begin_sum(rank, second);
    sgt_error error{};
    ASSERT_EQ(transport().op_wait(b, &error), SGT_OK) << error.message;
    ASSERT_EQ(rank.barrier().status, SGT_OK);
    while (transport().op_progress(b, &error) == SGT_OK &&
           transport().op_progress(a, &error) == SGT_IN_PROGRESS)
      std::this_thread::yield();
    EXPECT_EQ(first[0], 2.0f);
    transport().op_release(a);
    transport().op_release(b);
  });
}

TEST_P(Flight, AnOperationReleasedEarlyIsFinishedForItsPeers) {
  run_ranks(3, setting(), [](Rank& rank) {
    std::vector<float> data(40000, 1.0f);
    sgt_op* op = begin_sum(rank, data);
    if (rank.rank != 1) {
      sgt_error error{};
      EXPECT_EQ(transport().op_wait(op, &error), SGT_OK) << error.message;
    }
    transport().op_release(op);
    EXPECT_EQ(data[0], 3.0f);
  });
}

// UCX aborts the process over endpoints that are closed while it has something of its own to say on them. It
// says it late, and a long message may stand in its way.
TEST_P(Flight, DestroyFinishesAndReleasesWhatIsStillHeld) {
  for (int world = 0; world < 10; ++world) {
    std::vector<std::vector<float>> data(2, std::vector<float>(40000, 1.0f));
    run_ranks(2, setting(), [&](Rank& rank) { begin_sum(rank, data[static_cast<size_t>(rank.rank)]); });
    EXPECT_EQ(data[0], std::vector<float>(40000, 2.0f));
    EXPECT_EQ(data[1], data[0]);
  }
}

TEST_P(Flight, AbortOfAYoungWorldEndsALongMessage) {
  for (int world = 0; world < 10; ++world) {
    std::vector<std::vector<float>> data(3, std::vector<float>(1000000, 1.0f));
    std::atomic<int> there{0};
    run_ranks(3, setting(), [&](Rank& rank) {
      ++there;
      while (there != 3) std::this_thread::yield();
      auto& values = data[static_cast<size_t>(rank.rank)];
      sgt_op* op = nullptr;  // none where another rank was quicker
      transport().allreduce(rank.world, values.data(), values.data(), values.size(), SGT_FLOAT32, SGT_SUM,
                            &op, nullptr);
      if (rank.rank == world % 3) transport().world_abort(rank.world);
      sgt_error error{};
      while (transport().world_status(rank.world, &error) == SGT_OK) std::this_thread::yield();
      EXPECT_EQ(error.status, SGT_ABORTED) << error.message;
    });
  }
}

TEST_P(Flight, TwoWorldsInOneProcessDoNotMixUp) {
  run_ranks(3, setting(), [this](Rank& outer) {
    // A second world with the ranks reversed, its id handed out through the first.
    sgt_unique_id id{};
    if (outer.rank == 0) id = new_id();
    ASSERT_EQ(outer.broadcast(id.bytes, id.bytes, sizeof id, SGT_UINT8, 0).status, SGT_OK);
    Rank inner{2 - outer.rank, 3};
    const Outcome made = create(id, inner.rank, 3, setting(), &inner.world);
    ASSERT_EQ(made.status, SGT_OK) << made.error.message;
    for (int i = 0; i < 50; ++i) {
      int32_t a = outer.rank, b = 10 * inner.rank;
      ASSERT_EQ(outer.broadcast(&a, &a, 1, SGT_INT32, 1).status, SGT_OK);
      ASSERT_EQ(inner.broadcast(&b, &b, 1, SGT_INT32, 2).status, SGT_OK);
      ASSERT_EQ(a, 1);
      ASSERT_EQ(b, 20);
    }
    transport().world_destroy(inner.world);
  });
}

void expect_disagreement(Rank& rank, void* data, size_t count, sgt_type type, sgt_reduction reduction) {
  rank.barrier();  // nobody is still creating the world when the first one fails; it may cut this one short
  // Ranks that wait in different ways are in one collective.
  const Outcome outcome = rank.rank == 0 ? rank.allreduce_wait(data, data, count, type, reduction)
                                         : rank.allreduce(data, data, count, type, reduction);
  EXPECT_EQ(outcome.status, SGT_SYSTEM);
  EXPECT_NE(std::string(outcome.error.message).find("do the ranks agree"), std::string::npos)
      << outcome.error.message;
}

TEST_P(Flight, AMismatchOfCountsIsAnErrorNotAHang) {
  for (const size_t count : {64, 100000})
    run_ranks(2, setting(20), [count](Rank& rank) {
      std::vector<float> data(count, 1.0f);
      expect_disagreement(rank, data.data(), count - static_cast<size_t>(rank.rank), SGT_FLOAT32, SGT_SUM);
    });
}

// Counts on two sides of what decides for an algorithm: 1 KiB and 32 KiB.
TEST_P(Flight, AMismatchThatMakesRanksChooseDifferentlyIsAnError) {
  const std::pair<size_t, size_t> cases[] = {{200, 300},    {8, 300},    {8, 100000},
                                             {300, 100000}, {6, 100000}, {8000, 9000}};
  for (const int size : {2, 3, 5})
    for (const auto& [few, many] : cases)
      for (const int short_rank : {0, size - 1})
        run_ranks(size, setting(20), [few = few, many = many, short_rank](Rank& rank) {
          std::vector<float> data(many, 1.0f);
          const size_t count = rank.rank == short_rank ? few : many;
          const auto start = std::chrono::steady_clock::now();
          expect_disagreement(rank, data.data(), count, SGT_FLOAT32, SGT_SUM);
          EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15))
              << few << " and " << many << ", short on rank " << short_rank;
        });
}

// The same count, so that only the width differs; a reader of the other's buffer would read past its end.
TEST_P(Flight, AMismatchOfTypesOfLongVectorsIsAnError) {
  run_ranks(2, setting(20), [](Rank& rank) {
    std::vector<double> data(100000, 1.0);
    expect_disagreement(rank, data.data(), data.size(), rank.rank == 0 ? SGT_FLOAT32 : SGT_FLOAT64, SGT_SUM);
  });
}

// The bytes of both are the same.
TEST(FlightShm, AMismatchOfTypesOrReductionsOfShortVectorsIsAnError) {
  for (const bool type_differs : {true, false})
    run_ranks(2, {"shm", 20}, [type_differs](Rank& rank) {
      float data[4] = {};
      const bool other = rank.rank == 1;
      expect_disagreement(rank, data, 4, type_differs && other ? SGT_INT32 : SGT_FLOAT32,
                          !type_differs && other ? SGT_MAX : SGT_SUM);
    });
}

// A short all-reduce that one rank starts behind a longer one, and others beside it: they still meet.
TEST_P(Flight, AShortAllReduceAsOneCallMeetsOneThatIsUnderWayBesideOthers) {
  run_ranks(3, setting(), [](Rank& rank) {
    for (int round = 0; round < 50; ++round) {
      std::vector<float> data(20000, 1.0f);
      float value = static_cast<float>(rank.rank);
      sgt_op* op = begin_sum(rank, data);
      const Outcome outcome = round % 3 == rank.rank
                                  ? rank.allreduce(&value, &value, 1, SGT_FLOAT32, SGT_SUM)
                                  : rank.allreduce_wait(&value, &value, 1, SGT_FLOAT32, SGT_SUM);
      ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
      ASSERT_EQ(value, 3.0f);
      sgt_error error{};
      ASSERT_EQ(transport().op_wait(op, &error), SGT_OK) << error.message;
      ASSERT_EQ(data.back(), 3.0f);
      transport().op_release(op);
    }
  });
}

// It is far longer away than the others spin: they sleep, and it wakes them.
TEST_P(Flight, ARankThatComesLateWakesThoseThatSleep) {
  run_ranks(3, setting(), [](Rank& rank) {
    for (int round = 0; round < 6; ++round) {
      if (rank.rank == round % 3) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      float value = 1;
      const Outcome outcome = rank.allreduce_wait(&value, &value, 1, SGT_FLOAT32, SGT_SUM);
      ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
      ASSERT_EQ(value, 3.0f);
    }
  });
}

TEST_P(Flight, ArgumentsAreRefusedAndTheWorldIsUnharmed) {
  run_ranks(2, setting(), [](Rank& rank) {
    float value = 1;
    EXPECT_EQ(rank.allreduce(&value, &value, 1, static_cast<sgt_type>(12), SGT_SUM).status, SGT_INVALID);
    EXPECT_EQ(rank.allreduce_wait(&value, nullptr, 1, SGT_FLOAT32, SGT_SUM).status, SGT_INVALID);
    EXPECT_EQ(transport().allreduce_wait(nullptr, &value, &value, 1, SGT_FLOAT32, SGT_SUM, nullptr),
              SGT_INVALID);
    EXPECT_EQ(rank.allreduce(&value, &value, 1, SGT_FLOAT32, static_cast<sgt_reduction>(5)).status,
              SGT_INVALID);
    EXPECT_EQ(rank.allreduce(nullptr, &value, 1, SGT_FLOAT32, SGT_SUM).status, SGT_INVALID);
    EXPECT_EQ(rank.allreduce(&value, &value, ~size_t{0}, SGT_FLOAT32, SGT_SUM).status, SGT_INVALID);
    EXPECT_EQ(rank.broadcast(&value, &value, 1, SGT_FLOAT32, 2).status, SGT_INVALID);
    EXPECT_EQ(rank.allreduce(nullptr, nullptr, 0, SGT_FLOAT32, SGT_SUM).status, SGT_OK);
    EXPECT_EQ(rank.allreduce(&value, &value, 1, SGT_FLOAT32, SGT_SUM).status, SGT_OK);
    EXPECT_EQ(value, 2.0f);
  });
}

// Rank 1 never joins the all-reduce; a thread of rank 0 that owns nothing aborts.
TEST_P(Flight, AbortFromAnotherThreadEndsEveryRank) {
  std::atomic<bool> waiting{false};
  run_ranks(3, setting(), [&](Rank& rank) {
    std::thread aborter;
    if (rank.rank == 0)
      aborter = std::thread([&] {
        while (!waiting) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        transport().world_abort(rank.world);
      });
    waiting = waiting || rank.rank == 0;
    if (rank.rank != 1) {
      std::vector<float> data(100000, 1.0f);
      const Outcome outcome = rank.allreduce(data.data(), data.data(), data.size(), SGT_FLOAT32, SGT_SUM);
      EXPECT_EQ(outcome.status, SGT_ABORTED) << outcome.error.message;
      EXPECT_EQ(outcome.error.culprit, 0);
    }
    if (aborter.joinable()) aborter.join();
    // Also a rank that was in no operation learns of it, and nothing new begins.
    sgt_error error{};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (transport().world_status(rank.world, &error) == SGT_OK &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    EXPECT_EQ(error.status, SGT_ABORTED);
    EXPECT_EQ(rank.barrier().status, SGT_ABORTED);
  });
}

TEST_P(Flight, AMissingRankEndsTheWaitAtTheDeadlineAndIsNamed) {
  run_ranks(3, setting(1), [](Rank& rank) {
    if (rank.rank == 2) {  // in the world, but elsewhere
      sgt_error error{};
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (transport().world_status(rank.world, &error) == SGT_OK &&
             std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    std::vector<float> data(100000, 1.0f);
    const Outcome outcome = rank.allreduce(data.data(), data.data(), data.size(), SGT_FLOAT32, SGT_SUM);
    EXPECT_EQ(outcome.status, SGT_TIMEOUT);
    EXPECT_EQ(outcome.error.culprit, 2) << outcome.error.message;
    EXPECT_NE(std::string(outcome.error.message).find("rank 2 did not take part"), std::string::npos)
        << outcome.error.message;
  });
}

}  // namespace
}  // namespace stepgate::transport::testing

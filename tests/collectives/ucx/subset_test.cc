// Worlds out of ranks of a world: whole, aborted, or with its first rank gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/collectives/ucx/ranks.h"

namespace stepgate::transport::testing {
namespace {

using Ranks = std::vector<int>;

Outcome subset(sgt_world* parent, const Ranks& ranks, sgt_world** child, const Setting& setting = {}) {
  const sgt_options options = options_of(setting);
  Outcome outcome;
  outcome.status = transport().world_subset(parent, ranks.data(), static_cast<int>(ranks.size()), &options,
                                            child, &outcome.error);
  return outcome;
}

// The sum of the parent's ranks, which every member checks; then the world is closed.
void work(sgt_world* child, int parent_rank, const Ranks& ranks) {
  Rank rank{transport().world_rank(child), transport().world_size(child), child};
  ASSERT_EQ(rank.size, static_cast<int>(ranks.size()));
  EXPECT_EQ(ranks[static_cast<std::size_t>(rank.rank)], parent_rank);
  int32_t sum = parent_rank;
  const Outcome done = rank.allreduce(&sum, &sum, 1, SGT_INT32, SGT_SUM);
  EXPECT_EQ(done.status, SGT_OK) << done.error.message;
  int expected = 0;
  for (const int member : ranks) expected += member;
  EXPECT_EQ(sum, expected);
}

// A world of these ranks, which works and is closed again.
void meet_and_work(const Rank& rank, const Ranks& ranks) {
  sgt_world* child = nullptr;
  const Outcome made = subset(rank.world, ranks, &child);
  ASSERT_EQ(made.status, SGT_OK) << made.error.message;
  work(child, rank.rank, ranks);
  transport().world_destroy(child);
}

bool in(const Ranks& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

TEST(Subset, TakesTheOrderOfTheList) {
  for (const Ranks& ranks : {Ranks{0, 1, 2, 3}, Ranks{3, 1}, Ranks{2}, Ranks{1, 3, 0}}) {
    run_ranks(4, {}, [&](Rank& rank) {
      if (in(ranks, rank.rank)) meet_and_work(rank, ranks);
    });
  }
}

TEST(Subset, TheSameListAgainIsAnotherWorld) {
  run_ranks(3, {}, [](Rank& rank) {
    const Ranks ranks{1, 0, 2};
    std::vector<sgt_world*> children(4, nullptr);
    for (sgt_world*& child : children) {
      const Outcome made = subset(rank.world, ranks, &child);
      ASSERT_EQ(made.status, SGT_OK) << made.error.message;
    }
    for (sgt_world* child : children) work(child, rank.rank, ranks);
    for (sgt_world* child : children) transport().world_destroy(child);
  });
}

TEST(Subset, DisjointOnesComeAboutAtTheSameTime) {
  run_ranks(6, {}, [](Rank& rank) {
    const Ranks ranks = rank.rank % 2 == 0 ? Ranks{4, 2, 0} : Ranks{1, 3, 5};
    meet_and_work(rank, ranks);
  });
}

// The rank that keeps the control channel of all goes first. It waits until all have the world: an abort may
// also end the creation of a rank that is still in it.
TEST(Subset, TheRestGoesOnAfterAnAbort) {
  for (const int victim : {0, 2}) {
    std::atomic<int> arrived{0};
    run_ranks(4, {}, [&](Rank& rank) {
      ++arrived;
      if (rank.rank == victim) {
        while (arrived < 4) std::this_thread::yield();
        return transport().world_abort(rank.world);
      }
      EXPECT_NE(rank.barrier().status, SGT_OK);
      Ranks rest;
      for (int r = 0; r < 4; ++r) {
        if (r != victim) rest.push_back(r);
      }
      sgt_world* child = nullptr;
      const Outcome made = subset(rank.world, rest, &child);
      ASSERT_EQ(made.status, SGT_OK) << made.error.message;
      work(child, rank.rank, rest);
      transport().world_destroy(child);
    });
  }
}

TEST(Subset, ListsThatDifferDoNotMeet) {
  run_ranks(3, {}, [](Rank& rank) {
    const Ranks ranks = rank.rank == 0 ? Ranks{0, 1} : Ranks{0, 1, 2};
    sgt_world* child = nullptr;
    const Outcome made = subset(rank.world, ranks, &child, {.timeout_seconds = 0.5});
    EXPECT_EQ(made.status, SGT_TIMEOUT) << made.error.message;
    EXPECT_EQ(child, nullptr);
  });
}

TEST(Subset, AFailedAttemptDoesNotSpoilTheNext) {
  std::atomic<bool> failed{false};
  run_ranks(3, {}, [&](Rank& rank) {
    const Ranks ranks{0, 1, 2};
    if (rank.rank != 2) {
      sgt_world* child = nullptr;
      const Outcome made = subset(rank.world, ranks, &child, {.timeout_seconds = 0.3});
      EXPECT_EQ(made.status, SGT_TIMEOUT) << made.error.message;
      EXPECT_NE(std::string(made.error.message).find("rank 2"), std::string::npos) << made.error.message;
      EXPECT_EQ(made.error.culprit, 2);
      if (rank.rank == 0) failed = true;
    }
    while (!failed) std::this_thread::yield();
    meet_and_work(rank, ranks);
  });
}

// One who waited at the door for a first rank that did not come, and left, is no member of the next attempt.
TEST(Subset, WhoGaveUpAtTheDoorIsForgotten) {
  std::atomic<bool> gave_up{false};
  run_ranks(2, {}, [&](Rank& rank) {
    const Ranks ranks{0, 1};
    if (rank.rank == 1) {
      sgt_world* child = nullptr;
      EXPECT_EQ(subset(rank.world, ranks, &child, {.timeout_seconds = 0.1}).status, SGT_TIMEOUT);
      gave_up = true;
    }
    while (!gave_up) std::this_thread::yield();
    meet_and_work(rank, ranks);
  });
}

TEST(Subset, AClosedDoorIsADeadPeer) {
  std::atomic<bool> closed{false};
  const sgt_unique_id id = new_id();
  run_threads(2, [&](int number) {
    sgt_world* world = nullptr;
    ASSERT_EQ(create(id, number, 2, {}, &world).status, SGT_OK);
    transport().world_abort(world);
    if (number == 0) {
      transport().world_destroy(world);
      closed = true;
      return;
    }
    while (!closed) std::this_thread::yield();
    sgt_world* child = nullptr;
    const Outcome made = subset(world, {0, 1}, &child);
    EXPECT_EQ(made.status, SGT_PEER_DEAD) << made.error.message;
    EXPECT_EQ(made.error.culprit, 0);
    transport().world_destroy(world);
  });
}

TEST(Subset, CancellingEndsItOnAllRanks) {
  run_ranks(3, {}, [](Rank& rank) {
    const Ranks ranks{0, 1, 2};
    sgt_world* child = nullptr;
    if (rank.rank == 2) return;  // nobody waits for it longer than for the one that cancels
    sgt_options options = options_of({});
    std::atomic<int> asked{0};
    if (rank.rank == 1) {
      options.context = &asked;
      options.cancelled = [](void* count) -> int { return ++*static_cast<std::atomic<int>*>(count) > 3; };
    }
    Outcome made;
    made.status = transport().world_subset(rank.world, ranks.data(), 3, &options, &child, &made.error);
    EXPECT_EQ(made.status, SGT_ABORTED) << made.error.message;
    EXPECT_EQ(made.error.culprit, 1);
    EXPECT_EQ(child, nullptr);
  });
}

TEST(Subset, ListsThatMakeNoSenseAreRefused) {
  run_ranks(2, {}, [](Rank& rank) {
    sgt_world* child = nullptr;
    for (const Ranks& ranks : {Ranks{0, 0}, Ranks{0, 2}, Ranks{-1, 0}, Ranks{1 - rank.rank}}) {
      EXPECT_EQ(subset(rank.world, ranks, &child).status, SGT_INVALID);
    }
    sgt_error error{};
    EXPECT_EQ(transport().world_subset(rank.world, nullptr, 1, nullptr, &child, &error), SGT_INVALID);
    const int me = rank.rank;
    EXPECT_EQ(transport().world_subset(rank.world, &me, 0, nullptr, &child, &error), SGT_INVALID);
    EXPECT_EQ(transport().world_subset(rank.world, &me, 3, nullptr, &child, &error), SGT_INVALID);
    EXPECT_EQ(child, nullptr);
  });
}

// The listener goes with its thread: the port is free again.
TEST(Subset, AnIdThatNobodyUsesCanBeClosed) {
  const sgt_unique_id id = new_id();
  transport().unique_id_close(&id);
  sgt_world* world = nullptr;
  const Outcome made = create(id, 0, 2, {.timeout_seconds = 30}, &world);
  EXPECT_EQ(made.status, SGT_SYSTEM) << made.error.message;
  EXPECT_NE(std::string(made.error.message).find("cannot reach"), std::string::npos) << made.error.message;
}

}  // namespace
}  // namespace stepgate::transport::testing

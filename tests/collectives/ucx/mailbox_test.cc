// Letters in shared memory: what is posted is read, none is overwritten before everybody has read it,
// sleepers are woken, and memory or bells that cannot be reached are found when ranks attach.
#include "collectives/ucx/mailbox.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace stepgate::transport {
namespace {

using Boxes = std::vector<std::unique_ptr<Mailbox>>;

std::vector<Mailbox::Card> cards_of(const Boxes& boxes) {
  std::vector<Mailbox::Card> cards;
  for (const auto& box : boxes) cards.push_back(box->card());
  return cards;
}

Boxes unattached(int size) {
  Boxes boxes;
  for (int rank = 0; rank < size; ++rank) boxes.push_back(std::make_unique<Mailbox>(Place{rank, size}));
  return boxes;
}

Boxes attached(int size) {
  Boxes boxes = unattached(size);
  for (auto& box : boxes) EXPECT_TRUE(box->attach(cards_of(boxes)));
  for (auto& box : boxes) {
    box->all_attached();
    box->rouse();  // it was rung to see that it can be
  }
  return boxes;
}

bool rung(const Mailbox& box) {
  pollfd bell{box.fd(), POLLIN, 0};
  return poll(&bell, 1, 0) == 1;
}

void post(Mailbox& box, uint64_t value) {
  box.post({1, 2, static_cast<uint32_t>(value)}, &value, sizeof value);
}

uint64_t value_in(const Mailbox& box, int rank) {
  uint64_t value;
  std::memcpy(&value, box.body(rank), sizeof value);
  return value;
}

TEST(Mailbox, ALetterIsReadByTheOthers) {
  Boxes boxes = attached(3);
  post(*boxes[0], 10);
  post(*boxes[2], 12);
  EXPECT_FALSE(boxes[0]->arrived());
  EXPECT_EQ(boxes[0]->missing(), 1);
  post(*boxes[1], 11);
  for (auto& box : boxes) {
    ASSERT_TRUE(box->arrived());
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(value_in(*box, rank), 10u + static_cast<uint64_t>(rank));
      EXPECT_EQ(box->head(rank).sequence, 10u + static_cast<uint32_t>(rank));
    }
    box->next();
    EXPECT_FALSE(box->arrived()) << "the letters of the step before are not those of this one";
  }
}

TEST(Mailbox, TurnsComeInTheOrderOfTheTickets) {
  Boxes boxes = attached(2);
  const uint32_t first = boxes[0]->take_ticket(), second = boxes[0]->take_ticket();
  EXPECT_TRUE(boxes[0]->turn(first));
  EXPECT_FALSE(boxes[0]->turn(second));
  post(*boxes[0], 1);
  EXPECT_FALSE(boxes[0]->turn(first)) << "it is posted";
  post(*boxes[1], 1);
  ASSERT_TRUE(boxes[0]->arrived());
  EXPECT_FALSE(boxes[0]->turn(second)) << "the letters have not been read";
  boxes[0]->next();
  EXPECT_TRUE(boxes[0]->turn(second));
}

// As fast as they can, each at its own pace: a place that is used too early shows as a wrong value.
TEST(Mailbox, NoLetterIsOverwrittenBeforeAllHaveReadIt) {
  constexpr int kSize = 3, kSteps = 3000;
  Boxes boxes = attached(kSize);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank)
    threads.emplace_back([&boxes, rank] {
      Mailbox& box = *boxes[static_cast<size_t>(rank)];
      for (uint64_t step = 0; step < kSteps; ++step) {
        post(box, 1000 * step + static_cast<uint64_t>(rank));
        while (!box.arrived()) std::this_thread::yield();
        if (step % 7 == static_cast<uint64_t>(rank)) std::this_thread::yield();
        for (int other = 0; other < kSize; ++other)
          if (other != rank) {
            ASSERT_EQ(value_in(box, other), 1000 * step + static_cast<uint64_t>(other));
          }
        box.next();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Mailbox, WhoSleepsIsWokenAndWhoDoesNotIsNotRung) {
  Boxes boxes = attached(3);
  post(*boxes[0], 1);
  EXPECT_TRUE(boxes[0]->doze());
  post(*boxes[1], 1);
  boxes[1]->wake_sleepers();
  EXPECT_TRUE(rung(*boxes[0]));
  EXPECT_FALSE(rung(*boxes[1]));
  EXPECT_FALSE(rung(*boxes[2]));
  boxes[0]->rouse();
  EXPECT_FALSE(rung(*boxes[0]));
  boxes[1]->wake_sleepers();
  EXPECT_FALSE(rung(*boxes[0])) << "it is awake";
}

TEST(Mailbox, NobodySleepsOverALetterThatIsThere) {
  Boxes boxes = attached(2);
  post(*boxes[1], 1);
  EXPECT_TRUE(boxes[0]->doze()) << "it waits for no letter";
  boxes[0]->rouse();
  post(*boxes[0], 1);
  EXPECT_FALSE(boxes[0]->doze());
  boxes[0]->rouse();
}

TEST(Mailbox, BeatsOfOthersCountUpToThisCollective) {
  Boxes boxes = attached(3);
  uint64_t seen = boxes[0]->beats_up_to(7);
  const auto changed = [&](uint32_t sequence) {
    return std::exchange(seen, boxes[0]->beats_up_to(sequence)) != seen;
  };
  boxes[1]->beat(7, 3);
  EXPECT_TRUE(changed(7));
  EXPECT_FALSE(changed(7));
  boxes[1]->beat(7, 4);
  EXPECT_TRUE(changed(7));
  boxes[2]->beat(6, 1);
  EXPECT_TRUE(changed(7)) << "it is late, and on its way";
  boxes[0]->beat(7, 9);
  EXPECT_FALSE(changed(7)) << "its own";
  boxes[1]->beat(8, 1);
  static_cast<void>(changed(7));
  boxes[1]->beat(8, 2);
  EXPECT_FALSE(changed(7)) << "it has left this one behind";
}

TEST(Mailbox, AnotherSecretIsNotThisMemory) {
  Boxes boxes = unattached(2);
  auto cards = cards_of(boxes);
  cards[0].secret ^= 2;
  EXPECT_FALSE(boxes[1]->attach(cards));
}

TEST(Mailbox, ARankWithoutMemoryOrBellIsSeenByAll) {
  for (const size_t broken : {size_t{0}, size_t{1}}) {
    Boxes boxes = unattached(2);
    auto cards = cards_of(boxes);
    cards[broken].ready = 0;
    for (auto& box : boxes) EXPECT_FALSE(box->attach(cards));
  }
}

TEST(Mailbox, AProcessThatIsGoneCannotBeAttachedTo) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  Boxes boxes = unattached(2);
  auto cards = cards_of(boxes);
  cards[0].process = child;
  EXPECT_FALSE(boxes[1]->attach(cards));
}

TEST(Mailbox, ABellThatNobodyHasCannotBeAttachedTo) {
  Boxes boxes = unattached(2);
  auto cards = cards_of(boxes);
  boxes.pop_back();  // the bell goes with it
  EXPECT_FALSE(boxes[0]->attach(cards));
}

// A child that outlives its parent, or writes at random, must not reach the ranks.
TEST(Mailbox, AForkedChildDoesNotHaveTheMemory) {
  Boxes boxes = attached(2);
  const std::byte* letter = boxes[0]->body(1);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int ends[2];
    if (pipe(ends) != 0) _exit(2);
    _exit(write(ends[1], letter, 1) == 1 ? 1 : 0);  // EFAULT, and no signal that a sanitizer would report
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace stepgate::transport

// Reading another rank's memory: the probe, the word that is taken back, and processes that are gone.
#include "collectives/ucx/peer_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace stepgate::transport {
namespace {

uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

TEST(PeerMemory, WhatIsLentIsRead) {
  PeerMemory mine, theirs;
  ASSERT_TRUE(mine.introduce({mine.card(), theirs.card()}));
  const std::vector<int> lent(100000, 7);
  std::vector<int> copy(lent.size());
  EXPECT_EQ(mine.read(1, address_of(lent.data()), copy.data(), copy.size() * sizeof(int)), 0);
  EXPECT_EQ(copy, lent);
}

TEST(PeerMemory, WhatWasTakenBackIsNotGood) {
  PeerMemory mine, theirs;
  ASSERT_TRUE(mine.introduce({mine.card(), theirs.card()}));
  theirs.withdraw();
  const int lent = 7;
  int copy = 0;
  EXPECT_EQ(mine.read(1, address_of(&lent), &copy, sizeof copy), int{PeerMemory::kTakenBack});
  EXPECT_EQ(mine.read(0, address_of(&lent), &copy, sizeof copy), 0) << "the other rank still lends";
}

TEST(PeerMemory, ABufferThatWasUnmappedIsAnErrorNotACrash) {
  PeerMemory mine, theirs;
  ASSERT_TRUE(mine.introduce({mine.card(), theirs.card()}));
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  munmap(page, 4096);
  int copy = 0;
  EXPECT_EQ(mine.read(1, address_of(page), &copy, sizeof copy), EFAULT);
}

TEST(PeerMemory, AProcessThatIsGoneIsFoundByTheProbe) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  PeerMemory mine;
  PeerMemory::Card gone = mine.card();
  gone.process = child;
  EXPECT_FALSE(mine.introduce({mine.card(), gone}));
  int copy = 0;
  EXPECT_EQ(mine.read(1, address_of(&copy), &copy, sizeof copy), ESRCH) << "not a buffer that was taken back";
}

// A process of the same number, later: another word.
TEST(PeerMemory, AnotherWordIsFoundByTheProbe) {
  PeerMemory mine;
  PeerMemory::Card other = mine.card();
  other.word ^= 2;
  EXPECT_FALSE(mine.introduce({mine.card(), other}));
}

}  // namespace
}  // namespace stepgate::transport

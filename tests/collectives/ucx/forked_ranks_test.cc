// A program that makes an id and then forks its ranks, as many NCCL programs do: UCX was never used
// before the fork, so the children may use the transport.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "tests/collectives/ucx/ranks.h"

namespace stepgate::transport::testing {
namespace {

int run_rank(const sgt_unique_id& id, int number, int size) {
  Rank rank{number, size};
  if (create(id, number, size, {"auto", 60}, &rank.world).status != SGT_OK) return 1;
  int32_t value = number;
  if (rank.allreduce(&value, &value, 1, SGT_INT32, SGT_SUM).status != SGT_OK ||
      value != size * (size - 1) / 2)
    return 2;
  transport().world_destroy(rank.world);
  return 0;
}

TEST(ForkedRanks, JoinAnIdThatWasMadeBeforeTheFork) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer's runtime starts no threads in children of a program with threads";
#endif
  constexpr int kSize = 3;
  const sgt_unique_id id = new_id();
  std::vector<pid_t> children;
  for (int rank = 0; rank < kSize; ++rank) {
    const pid_t child = fork();
    if (child == 0) std::exit(run_rank(id, rank, kSize));
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace stepgate::transport::testing

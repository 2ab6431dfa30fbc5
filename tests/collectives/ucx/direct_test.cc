// Long all-reduces that read the other ranks' buffers: what happens where they cannot, and while one of the
// ranks works for long.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "collectives/ucx/peer_memory.h"
#include "tests/collectives/ucx/ranks.h"

namespace stepgate::transport::testing {
namespace {

constexpr size_t kCount = 100000;

// Memory of this process that no other can read, nor the kernel for it: as a mapping of a device is.
class SecretMemory {
 public:
  explicit SecretMemory(size_t bytes) : bytes_(bytes) {
#if defined(SYS_memfd_secret)
    const int fd = static_cast<int>(syscall(SYS_memfd_secret, 0));
    if (fd < 0) return;
    if (ftruncate(fd, static_cast<off_t>(bytes)) == 0)
      data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
#endif
  }
  ~SecretMemory() {
    if (data_ != MAP_FAILED) munmap(data_, bytes_);
  }
  SecretMemory(const SecretMemory&) = delete;
  SecretMemory& operator=(const SecretMemory&) = delete;

  bool there() const {
    return data_ != MAP_FAILED;
  }
  float* data() const {
    return static_cast<float*>(data_);
  }

 private:
  const size_t bytes_;
  void* data_ = MAP_FAILED;
};

void expect_sums(Rank& rank, const float* send, float* recv) {
  const Outcome outcome = rank.allreduce(send, recv, kCount, SGT_FLOAT32, SGT_SUM);
  ASSERT_EQ(outcome.status, SGT_OK) << outcome.error.message;
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(recv[i], static_cast<float>(rank.size));
}

TEST(Direct, ABufferThatCannotBeReadIsNotLent) {
  SecretMemory secret(kCount * sizeof(float));
  if (!secret.there()) GTEST_SKIP() << "this kernel has no memfd_secret";
  std::vector<float> plain(kCount);
  EXPECT_FALSE(PeerMemory::lends(secret.data(), kCount * sizeof(float)));
  EXPECT_TRUE(PeerMemory::lends(plain.data(), kCount * sizeof(float)));
}

// One rank's, sent from or received into, makes all take the ring for that call; the next is as always.
TEST(Direct, ABufferThatCannotBeReadGoesRoundTheRing) {
  if (!SecretMemory(1).there()) GTEST_SKIP() << "this kernel has no memfd_secret";
  for (const int size : {2, 3})
    run_ranks(size, {"shm", 30}, [](Rank& rank) {
      std::vector<float> plain(kCount, 1.0f), result(kCount);
      SecretMemory secret(kCount * sizeof(float));
      ASSERT_TRUE(secret.there());
      const bool last = rank.rank + 1 == rank.size;
      std::fill_n(secret.data(), kCount, 1.0f);
      expect_sums(rank, last ? secret.data() : plain.data(), result.data());
      expect_sums(rank, plain.data(), last ? secret.data() : result.data());
      expect_sums(rank, plain.data(), result.data());
    });
}

// The first half of the buffer is combined without a message, for longer than the timeout; then the other is
// copied, again for longer.
TEST(Direct, ARankThatWorksForLongerThanTheTimeoutIsNotGivenUp) {
  constexpr size_t kLong = size_t{12} << 20;  // 48 MiB: six pieces of work before each round of messages
  constexpr auto kPause = std::chrono::milliseconds(400);
  run_ranks(2, {"shm", 1.6}, [&](Rank& rank) {
    std::vector<float> data(kLong, 1.0f);
    sgt_op* op = nullptr;
    sgt_error error{};
    ASSERT_EQ(
        transport().allreduce(rank.world, data.data(), data.data(), kLong, SGT_FLOAT32, SGT_SUM, &op, &error),
        SGT_OK);
    sgt_status status = SGT_IN_PROGRESS;
    while (rank.rank == 1 && (status = transport().op_progress(op, &error)) == SGT_IN_PROGRESS)
      std::this_thread::sleep_for(kPause);
    EXPECT_EQ(transport().op_wait(op, &error), SGT_OK) << error.message;
    EXPECT_EQ(data.front(), 2.0f);
    EXPECT_EQ(data.back(), 2.0f);
    transport().op_release(op);
  });
}

}  // namespace
}  // namespace stepgate::transport::testing

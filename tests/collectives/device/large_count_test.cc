// More elements than 32 bits count, in one segment, without the memory: one small file mapped again
// and again behind itself.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "collectives/device/host/host_device.h"

namespace stepgate::test {
namespace {

using device::Code;
using device::HostDevice;
using device::Segment;

class RepeatedHalves : public testing::Test {
 protected:
  static constexpr std::uint64_t kElements = std::uint64_t{1} << 24;  // of one copy: 32 MiB
  static constexpr std::uint64_t kCopies = 259;                       // 2^32 and three copies more
  static constexpr std::size_t kBytes = kElements * sizeof(std::uint16_t);

  void SetUp() override {
    file_ = memfd_create("halves", 0);
    ASSERT_GE(file_, 0);
    ASSERT_EQ(ftruncate(file_, kBytes), 0);
    void* base =
        mmap(nullptr, kBytes * kCopies, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(base, MAP_FAILED);
    data_ = static_cast<std::uint16_t*>(base);
    for (std::uint64_t i = 0; i < kCopies; ++i) {
      ASSERT_NE(mmap(data_ + i * kElements, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, 0),
                MAP_FAILED);
    }
    for (std::uint64_t i = 0; i < kElements; ++i) data_[i] = 0x3c00;  // 1
  }
  void TearDown() override {
    if (data_ != nullptr) munmap(data_, kBytes * kCopies);
    if (file_ >= 0) close(file_);
  }

  int file_ = -1;
  std::uint16_t* data_ = nullptr;
};

TEST_F(RepeatedHalves, ScanCountsThemAll) {
  data_[5] = 0x7e00;     // NaN: in every copy
  data_[1000] = 0x8000;  // -0: behind the segment's end in the last copy
  HostDevice host;
  const Segment segment{data_, (kCopies - 1) * kElements + 900};
  ASSERT_GT(segment.count, std::uint64_t{1} << 32);
  GradStats s;
  ASSERT_EQ(host.scan(nullptr, {.segments = {&segment, 1}, .stored = ElementType::kFp16, .total = &s}),
            Code::kOk);
  EXPECT_EQ(s.elements, segment.count);
  EXPECT_EQ(s.nan, kCopies);
  EXPECT_EQ(s.zeros, kCopies - 1);
  EXPECT_EQ(s.sum_squares, static_cast<double>(segment.count - kCopies - (kCopies - 1)));
  EXPECT_EQ(s.abs_max, 1.0);
}

TEST_F(RepeatedHalves, ApplyReachesThemAll) {
  HostDevice host;
  Outputs o;
  o.found_inf = 0;
  o.multiplier = -1.0f;
  const std::uint64_t count = (kCopies - 1) * kElements + 900;
  ASSERT_EQ(host.apply(nullptr, {.data = data_, .count = count, .stored = ElementType::kFp16, .outputs = &o}),
            Code::kOk);
  EXPECT_EQ(data_[0], 0xbc00);  // an odd number of sign changes
  EXPECT_EQ(data_[899], 0xbc00);
  EXPECT_EQ(data_[900], 0x3c00);
  EXPECT_EQ(data_[kElements - 1], 0x3c00);
}

}  // namespace
}  // namespace stepgate::test

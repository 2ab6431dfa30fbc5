// fp8 statistics of the device kernels against the reference written from the formats' definitions, and
// against the host's.
#include <gtest/gtest.h>

#include <random>

#include "collectives/device/host/host_device.h"
#include "tests/collectives/device/fp8_oracle.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/collectives/device_cuda/kernel_runs.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

class ScanFp8 : public testing::TestWithParam<ElementType> {
 protected:
  void expect_equal(const std::vector<unsigned char>& data, ElementType compute, const ScanShape& shape) {
    for (const std::size_t skip : {0, 1, 3}) {
      std::vector<unsigned char> memory(skip, 0x7f);
      memory.insert(memory.end(), data.begin(), data.end());
      const ScanResult got =
          scan_on_standin(GetParam(), compute, {{memory.data() + skip, data.size()}}, shape);
      const GradStats want = fp8_reference(GetParam(), compute, data);
      EXPECT_EQ(difference(got.total, want), "") << data.size() << " elements, " << skip << " bytes off";
      EXPECT_EQ(difference(on_the_host(memory.data() + skip, data.size(), compute), got.total), "");
      EXPECT_EQ(got.first_bad, (want.inf | want.nan) != 0 ? 0 : -1);
    }
  }
  GradStats on_the_host(const unsigned char* data, std::size_t count, ElementType compute) {
    device::HostDevice host;
    GradStats total;
    const device::Segment segment{data, count};
    EXPECT_EQ(
        host.scan(nullptr,
                  {.segments = {&segment, 1}, .stored = GetParam(), .compute = compute, .total = &total}),
        device::Code::kOk);
    return total;
  }
  std::vector<unsigned char> random_bytes(std::size_t n, unsigned below) {
    std::vector<unsigned char> data(n);
    for (auto& b : data) b = static_cast<unsigned char>(random_() % below | (random_() % 2) << 7);
    return data;
  }
  std::mt19937_64 random_{test_seed()};
};

TEST_P(ScanFp8, EveryValueAgainstEveryComputeType) {
  std::vector<unsigned char> all;
  for (unsigned v = 0; v < 256; ++v) all.push_back(static_cast<unsigned char>(v));
  std::vector<device::Segment> alone;
  alone.reserve(all.size());
  for (const unsigned char& v : all) alone.push_back({&v, 1});
  for (std::uint32_t c = 0; c < kElementTypeCount; ++c) {
    const auto compute = static_cast<ElementType>(c);
    expect_equal(all, compute, {1, 32, 0});
    const ScanResult got = scan_on_standin(GetParam(), compute, alone, {1, 32, 0});
    for (unsigned v = 0; v < 256; ++v) {
      const GradStats want = fp8_reference(GetParam(), compute, {static_cast<unsigned char>(v)});
      EXPECT_EQ(difference(got.segments[v], want), "") << v << " for " << type_label(compute);
    }
  }
}

TEST_P(ScanFp8, Sizes) {
  for (const std::size_t n : {0, 7, 8, 9, 255, 257, 8191, 8192, 8193, 3 * 8192 + 5}) {
    expect_equal(random_bytes(n, 0x7c), GetParam(), {2, 64, 1});  // finite in both formats
    expect_equal(random_bytes(n, 0x80), GetParam(), {3, 64, 0});
  }
}

TEST_P(ScanFp8, EveryAlignment) {
  const std::vector<unsigned char> data = random_bytes(2 * 8192 + 3, 0x7c);
  const GradStats want = fp8_reference(GetParam(), ElementType::kFp16, data);
  for (std::size_t skip = 0; skip < 8; ++skip) {
    std::vector<unsigned char> memory(skip, 0x7f);
    memory.insert(memory.end(), data.begin(), data.end());
    const ScanResult got =
        scan_on_standin(GetParam(), ElementType::kFp16, {{memory.data() + skip, data.size()}}, {});
    EXPECT_EQ(difference(got.total, want), "") << skip;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ScanFp8, testing::Values(ElementType::kFp8E4M3, ElementType::kFp8E5M2),
                         [](const auto& one) { return type_label(one.param); });

}  // namespace
}  // namespace stepgate::test

// fp8 statistics of every table of inner loops against the slow reference, bit for bit.
#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "collectives/device/host/host_device.h"
#include "collectives/device/host/kernels.h"
#include "tests/collectives/device/fp8_oracle.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

class HostScanFp8 : public testing::TestWithParam<std::tuple<std::size_t, ElementType>> {
 protected:
  ElementType type() const { return std::get<1>(GetParam()); }

  void check(const std::vector<unsigned char>& data, ElementType compute, std::size_t offset = 0) {
    std::vector<unsigned char> memory(offset, 0x7f);
    memory.insert(memory.end(), data.begin(), data.end());
    device::HostDevice host(*device::host::runnable_kernels()[std::get<0>(GetParam())]);
    const device::Segment segment{memory.data() + offset, data.size()};
    GradStats got;
    ASSERT_EQ(
        host.scan(nullptr, {.segments = {&segment, 1}, .stored = type(), .compute = compute, .total = &got}),
        device::Code::kOk);
    EXPECT_EQ(difference(got, fp8_reference(type(), compute, data)), "")
        << data.size() << " elements, compute " << type_label(compute) << ", offset " << offset;
  }

  std::vector<unsigned char> random_bytes(std::size_t n, unsigned below) {
    std::vector<unsigned char> data(n);
    for (auto& b : data) b = static_cast<unsigned char>(random_() % below | (random_() % 2) << 7);
    return data;
  }

  std::mt19937_64 random_{test_seed()};
};

TEST_P(HostScanFp8, EveryValueAgainstEveryComputeType) {
  for (std::uint32_t c = 0; c < kElementTypeCount; ++c) {
    const auto compute = static_cast<ElementType>(c);
    std::vector<unsigned char> all;
    for (unsigned v = 0; v < 256; ++v) {
      all.push_back(static_cast<unsigned char>(v));
      check({static_cast<unsigned char>(v)}, compute);
    }
    check(all, compute);
  }
}

TEST_P(HostScanFp8, SizesAndOffsets) {
  for (const std::size_t n : {0, 7, 8, 9, 63, 255, 256, 257, 8191, 8192, 8193, 3 * 8192 + 5}) {
    for (const std::size_t offset : {0, 1, 31}) {
      check(random_bytes(n, 0x7c), type(), offset);  // finite in both formats
      check(random_bytes(n, 0x80), ElementType::kFp16, offset);
    }
  }
}

// A stranger in each lane of a row: a lane that a counter or the maximum forgets shows here.
TEST_P(HostScanFp8, OneStrangerInEveryColumn) {
  const std::vector<unsigned char> base = random_bytes(600, 0x30);
  for (std::size_t at = 0; at < base.size(); ++at) {
    for (const unsigned char stranger : {0x7f, 0x7c, 0x7b, 0x80, 0x01}) {
      std::vector<unsigned char> data = base;
      data[at] = stranger;
      check(data, ElementType::kFp8E4M3);
    }
  }
}

TEST(HostFp8, IsNotMultiplied) {
  device::HostDevice host;
  unsigned char x[4] = {0x38, 0x38, 0x38, 0x38};
  const double scale = 2;
  GradStats total;
  const device::Segment segment{x, 4};
  EXPECT_EQ(host.scan(nullptr, {.segments = {&segment, 1},
                                .stored = ElementType::kFp8E4M3,
                                .total = &total,
                                .unscale_by = &scale}),
            device::Code::kUnsupported);
  EXPECT_EQ(x[0], 0x38);
}

std::vector<std::size_t> every_table() {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < device::host::runnable_kernels().size(); ++i) indices.push_back(i);
  return indices;
}

INSTANTIATE_TEST_SUITE_P(Tables, HostScanFp8,
                         testing::Combine(testing::ValuesIn(every_table()),
                                          testing::Values(ElementType::kFp8E4M3, ElementType::kFp8E5M2)),
                         [](const auto& tested) {
                           return std::string(
                                      device::host::runnable_kernels()[std::get<0>(tested.param)]->name) +
                                  "_" + type_label(std::get<1>(tested.param));
                         });

}  // namespace
}  // namespace stepgate::test

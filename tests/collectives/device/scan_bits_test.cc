// Every table of inner loops that this machine can run against the slow oracle, bit for bit.
#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "collectives/device/host/host_device.h"
#include "collectives/device/host/kernels.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using device::Code;
using device::HostDevice;
using device::Segment;

class ScanBits : public testing::TestWithParam<std::tuple<std::size_t, ElementType>> {
 protected:
  const device::host::Kernels& kernels() const {
    return *device::host::runnable_kernels()[std::get<0>(GetParam())];
  }
  ElementType type() const { return std::get<1>(GetParam()); }

  GradStats scan(const unsigned char* data, std::size_t count, ElementType compute) {
    HostDevice host(kernels());
    const Segment segment{data, count};
    GradStats stats;
    EXPECT_EQ(host.scan(nullptr,
                        {.segments = {&segment, 1}, .stored = type(), .compute = compute, .total = &stats}),
              Code::kOk);
    return stats;
  }

  void check(const Elements& e, ElementType compute, std::size_t offset, const std::string& what) {
    const auto bytes = pack(type(), e, offset);
    const std::string wrong =
        difference(scan(bytes.data() + offset, e.size(), compute), oracle_scan(type(), compute, e));
    EXPECT_EQ(wrong, "") << what << ", " << e.size() << " elements, compute " << type_label(compute)
                         << ", offset " << offset;
  }

  void check_all_computes(const Elements& e, const std::string& what) {
    for (const ElementType compute : kStoredTypes) check(e, compute, 0, what);
  }

  std::mt19937_64 random_{test_seed()};
};

TEST_P(ScanBits, LengthsAroundVectorsRowsAndUnits) {
  std::vector<std::size_t> lengths = {127, 128, 129,  255,  256,  257,   511,
                                      512, 513, 8191, 8192, 8193, 16384, 24575};
  for (std::size_t n = 0; n <= 70; ++n) lengths.push_back(n);
  for (const std::size_t n : lengths) {
    check(healthy(type(), n, random_), ElementType::kFp16, 0, "healthy");
    check(any_bits(type(), n, random_), ElementType::kFp16, 0, "any bits");
  }
}

TEST_P(ScanBits, EveryByteOffset) {
  const Elements e = healthy(type(), 9001, random_);
  for (std::size_t offset = 0; offset < 64; ++offset) check(e, ElementType::kFp16, offset, "healthy");
}

TEST_P(ScanBits, EveryComputeTypeOnEverything) {
  for (const std::size_t n : {300, 8192, 10000}) {
    check_all_computes(any_bits(type(), n, random_), "any bits");
    check_all_computes(healthy(type(), n, random_), "healthy");
  }
}

TEST_P(ScanBits, WholeUnitsOfOneKind) {
  const std::uint64_t minus = sign_bit(type());
  const std::uint64_t kinds[] = {0,
                                 minus,
                                 1,
                                 minus | 1,
                                 largest_bits(type()),
                                 minus | largest_bits(type()),
                                 infinity_bits(type()),
                                 minus | infinity_bits(type()),
                                 nan_bits(type()),
                                 infinity_bits(type()) | 1,
                                 minus | nan_bits(type())};
  for (const std::uint64_t bits : kinds) {
    for (const std::size_t n : {1, 255, 8192, 8193}) {
      check_all_computes(Elements(n, bits), "all elements " + std::to_string(bits));
    }
  }
}

TEST_P(ScanBits, AllSubnormalOfTheStoredType) {
  Elements e;
  const std::uint64_t smallest = encode(type(), smallest_normal(type()));
  for (int i = 0; i < 9000; ++i)
    e.push_back((1 + random_() % (smallest - 1)) | (random_() % 2) * sign_bit(type()));
  check_all_computes(e, "subnormals");
}

TEST_P(ScanBits, OneStrangerAtEveryPlaceThatMatters) {
  const std::uint64_t strangers[] = {nan_bits(type()), infinity_bits(type()),
                                     infinity_bits(type()) | sign_bit(type()), largest_bits(type()), 1};
  for (const std::size_t n : {1, 37, 8191, 8192, 8193, 16390}) {
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
      for (const std::uint64_t stranger : strangers) {
        Elements e = healthy(type(), n, random_);
        e[at] = stranger;
        check(e, ElementType::kFp16, element_size(type()), "stranger at " + std::to_string(at));
      }
    }
  }
}

// A stranger in each lane of a row: a lane that a counter or the maximum forgets shows here.
TEST_P(ScanBits, OneStrangerInEveryColumn) {
  const Elements base = healthy(type(), 600, random_);
  for (std::size_t at = 0; at < 600; ++at) {
    Elements e = base;
    e[at] = at % 2 == 0 ? largest_bits(type()) : infinity_bits(type());
    check(e, ElementType::kFp16, 0, "stranger at " + std::to_string(at));
    e[at] = base[at] == 0 ? 1 : 0;
    check(e, ElementType::kFp16, 0, "zero or tiny at " + std::to_string(at));
  }
}

TEST_P(ScanBits, LimitsOfFp32Columns) {
  for (const double limit : {kFp32SquaresMax, kFp32SquaresMin}) {
    const std::uint64_t exact = encode(type(), limit);
    if (exact == 0 || exact >= infinity_bits(type())) continue;  // fp16 reaches neither
    for (const std::uint64_t bits : {exact - 1, exact, exact + 1}) {
      Elements e(8200, bits);
      for (std::size_t i = 0; i < e.size(); i += 3) e[i] = random_() % (bits + 1);
      e[100] = bits;
      check_all_computes(e, "around a limit of fp32 columns");
    }
  }
}

TEST_P(ScanBits, LimitsOfComputeTypes) {
  for (const ElementType compute : kStoredTypes) {
    for (const double limit : {smallest_normal(compute), largest_finite(compute)}) {
      const std::uint64_t at = encode(type(), limit);
      Elements e = healthy(type(), 700, random_);
      for (const std::uint64_t bits : {at - 1, at, at + 1}) {
        if (bits < infinity_bits(type())) e.push_back(bits);
      }
      check(e, compute, 0, "around a limit of the compute type");
    }
  }
}

TEST_P(ScanBits, RandomLengthsAndMixtures) {
  for (int round = 0; round < 40; ++round) {
    const std::size_t n = random_() % 40000;
    Elements e = healthy(type(), n, random_);
    for (std::uint64_t k = random_() % 4; k > 0 && n > 0; --k) {
      e[random_() % n] = any_bits(type(), 1, random_)[0];
    }
    const ElementType compute = kStoredTypes[random_() % 4];
    check(e, compute, random_() % 64, "seed " + std::to_string(test_seed()));
  }
}

std::vector<std::size_t> table_indices() {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < device::host::runnable_kernels().size(); ++i) indices.push_back(i);
  return indices;
}

INSTANTIATE_TEST_SUITE_P(
    Tables, ScanBits, testing::Combine(testing::ValuesIn(table_indices()), testing::ValuesIn(kStoredTypes)),
    [](const auto& tested) {
      return std::string(device::host::runnable_kernels()[std::get<0>(tested.param)]->name) + "_" +
             type_label(std::get<1>(tested.param));
    });

}  // namespace
}  // namespace stepgate::test

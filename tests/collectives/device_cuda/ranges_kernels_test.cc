// Several ranges in one launch, stamps, and scans that a stamp stops: against a scan of each range alone.
#include <gtest/gtest.h>

#include <random>

#include "tests/collectives/device/scan_oracle.h"
#include "tests/collectives/device_cuda/kernel_runs.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using device::Segment;
using Ranges = std::vector<std::vector<Segment>>;

class RangesKernels : public testing::TestWithParam<ElementType> {
 protected:
  ElementType stored() const { return GetParam(); }

  // Ranges of so many segments each, of mixed lengths; every seventh range holds a NaN.
  void make(const std::vector<std::size_t>& shape) {
    ranges_.clear(), memory_.clear();
    for (std::size_t r = 0; r < shape.size(); ++r) {
      std::vector<Segment> segments;
      for (std::size_t i = 0; i < shape[r]; ++i) {
        const std::size_t n = random_() % 17 == 0 ? 8000 + random_() % 20000 : random_() % 60;
        Elements e = healthy(stored(), n, random_);
        if (r % 7 == 3 && n != 0) e[n / 2] = nan_bits(stored());
        const std::size_t skip = random_() % 3 * element_size(stored());
        memory_.push_back(pack(stored(), e, skip));
        segments.push_back({memory_.back().data() + skip, n});
      }
      ranges_.push_back(std::move(segments));
    }
  }
  // Each range on the host, from the bytes as they are now.
  std::vector<ScanResult> alone(const double* unscale_by = nullptr) {
    std::vector<ScanResult> results;
    for (const auto& r : ranges_) {
      results.push_back(scan_on_host(stored(), ElementType::kFp16, r, unscale_by));
    }
    return results;
  }
  void expect_equal(const std::vector<ScanResult>& got, const std::vector<ScanResult>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t r = 0; r < got.size(); ++r) EXPECT_EQ(difference(got[r], want[r]), "") << "range " << r;
  }

  std::mt19937_64 random_{test_seed()};
  Ranges ranges_;
  std::vector<std::vector<unsigned char>> memory_;
};

const std::vector<std::size_t> kMixtures[] = {{1, 1, 1},
                                              {0, 3, 0, 0, 5, 0},
                                              {0, 0},
                                              {100, 1, 60, 0, 200, 7},
                                              {500, 2, 0, 193, 1},
                                              std::vector<std::size_t>(60, 1)};

TEST_P(RangesKernels, EachHasTheBitsOfAScanAlone) {
  for (const auto& mixture : kMixtures) {
    make(mixture);
    const auto want = alone();
    for (const ScanShape& shape : {ScanShape{2, 64, 0}, ScanShape{1, 32, 1}}) {
      expect_equal(scan_all_on_standin(stored(), ElementType::kFp16, ranges_, shape), want);
    }
  }
}

TEST_P(RangesKernels, InPlaceToo) {
  const double scale = 48;
  for (const auto& mixture : kMixtures) {
    make(mixture);
    const auto before = memory_;
    const auto want = alone(&scale);
    const auto multiplied = memory_;
    for (std::size_t i = 0; i < memory_.size(); ++i) {  // in place: segments point here
      std::copy(before[i].begin(), before[i].end(), memory_[i].begin());
    }
    ScanExtras extras;
    extras.unscale_by = &scale;
    expect_equal(scan_all_on_standin(stored(), ElementType::kFp16, ranges_, {2, 64, 0}, extras), want);
    EXPECT_TRUE(memory_ == multiplied);
  }
}

// A stamp that is the epoch stops its range, whole and alone, in launches of any number.
TEST_P(RangesKernels, AStampStopsItsRange) {
  const std::uint64_t epoch = 7;
  for (const auto& mixture : kMixtures) {
    for (const bool asked : {false, true}) {
      make(mixture);
      const auto fresh = alone();
      std::vector<std::uint64_t> stamps(ranges_.size());
      std::vector<ScanResult> want = fresh, before(ranges_.size());
      for (std::size_t r = 0; r < ranges_.size(); ++r) {
        stamps[r] = random_() % 2 == 0 ? epoch : epoch - random_() % 3;
        before[r].segments.resize(ranges_[r].size());
        before[r].total.zeros = 4711 + r;
        before[r].first_bad = 17;
        if (asked && stamps[r] == epoch) want[r] = before[r];
      }
      ScanExtras extras;
      extras.epoch = &epoch;
      extras.stamps = stamps.data();
      extras.unless_stamped = asked;
      for (int again = 0; again < 2; ++again) {
        const auto got =
            scan_all_on_standin(stored(), ElementType::kFp16, ranges_, {3, 64, 0}, extras, before);
        if (again == 1 && asked) want = before;  // all are stamped now
        expect_equal(got, want);
        EXPECT_EQ(stamps, std::vector<std::uint64_t>(ranges_.size(), epoch));
      }
    }
  }
}

// A replay may not multiply twice.
TEST_P(RangesKernels, AStampStopsAnInPlaceScan) {
  const double scale = 3;
  std::uint64_t epoch = 1;
  make({500, 3, 0, 1});
  std::vector<std::uint64_t> stamps(ranges_.size(), 0);
  ScanExtras extras;
  extras.unscale_by = &scale;
  extras.epoch = &epoch;
  extras.stamps = stamps.data();
  extras.unless_stamped = true;
  const auto scan = [&] {
    return scan_all_on_standin(stored(), ElementType::kFp16, ranges_, {2, 64, 0}, extras);
  };
  const auto at_first = memory_;
  scan();
  const auto once = memory_;
  EXPECT_TRUE(once != at_first);
  scan();
  EXPECT_TRUE(memory_ == once);
  ++epoch;
  scan();
  EXPECT_TRUE(memory_ != once);
}

INSTANTIATE_TEST_SUITE_P(Types, RangesKernels, testing::ValuesIn(kStoredTypes),
                         [](const auto& one) { return type_label(one.param); });

}  // namespace
}  // namespace stepgate::test

// BucketTable: the series with a `bucket` label of one gate. The first `cap` names get series of
// their own, every later one shares bucket="other".
//
// Thread: the publisher's, under the registry's page lock. Ownership: GateSeries.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <unordered_map>

#include "collectives/core/grad_stats.h"
#include "collectives/core/records.h"
#include "metrics/registry.h"

namespace stepgate::metrics {

inline constexpr std::size_t kPhases = 2;
inline constexpr std::array<const char*, kPhases> kPhaseNames = {"local", "reduced"};  // by ScanPhase
inline constexpr std::size_t kNonfiniteKinds = 2;
inline constexpr std::array<const char*, kNonfiniteKinds> kNonfiniteKindNames = {"inf", "nan"};
inline constexpr const char* kOtherBucket = "other";

// Elements by ScanPhase and kind (0 inf, 1 nan).
struct NonfiniteCounts {
  std::array<std::array<std::uint64_t, kNonfiniteKinds>, kPhases> n{};
};

class BucketTable {
 public:
  BucketTable(Series& series, std::size_t cap) : series_(series), cap_(cap) {}

  // The name under which a range is published: its own below the cap, "other" above it and for "".
  std::string admit(const std::string& name);
  // Gauges of the reduced gradient; `stats` are those of one range, or of several together.
  void set_gauges(const std::string& admitted, const GradStats& stats);
  void add_nonfinite(const std::string& admitted, const NonfiniteCounts& counts);
  std::size_t size() const { return buckets_.size(); }

 private:
  struct Bucket {
    GaugeRef* abs_max = nullptr;
    GaugeRef* zero_ratio = nullptr;
    GaugeRef* subnormal_ratio = nullptr;
    std::array<std::array<CounterRef*, kNonfiniteKinds>, kPhases> nonfinite{};
  };
  Bucket& bucket(const std::string& admitted);

  Series& series_;
  const std::size_t cap_;
  std::size_t named_ = 0;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace stepgate::metrics

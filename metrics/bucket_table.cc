#include "metrics/bucket_table.h"

namespace stepgate::metrics {
namespace {

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::string BucketTable::admit(const std::string& name) {
  if (name.empty() || name == kOtherBucket) return kOtherBucket;
  if (buckets_.contains(name)) return name;
  if (named_ >= cap_) return kOtherBucket;
  ++named_;
  bucket(name);
  return name;
}

void BucketTable::set_gauges(const std::string& admitted, const GradStats& stats) {
  Bucket& b = bucket(admitted);
  if (b.abs_max == nullptr) {
    const Labels labels = {{"bucket", admitted}};
    b.abs_max = &series_.gauge(FamilyId::kAbsMax, labels);
    b.zero_ratio = &series_.gauge(FamilyId::kZeroRatio, labels);
    b.subnormal_ratio = &series_.gauge(FamilyId::kSubnormalRatio, labels);
  }
  b.abs_max->set(stats.abs_max);
  b.zero_ratio->set(share(stats.zeros, stats.elements));
  b.subnormal_ratio->set(share(stats.subnormals, stats.elements));
}

void BucketTable::add_nonfinite(const std::string& admitted, const NonfiniteCounts& counts) {
  Bucket& b = bucket(admitted);
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    for (std::size_t kind = 0; kind < kNonfiniteKinds; ++kind) {
      b.nonfinite[phase][kind]->add(static_cast<double>(counts.n[phase][kind]));
    }
  }
}

BucketTable::Bucket& BucketTable::bucket(const std::string& admitted) {
  const auto [it, fresh] = buckets_.try_emplace(admitted);
  if (!fresh) return it->second;
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    for (std::size_t kind = 0; kind < kNonfiniteKinds; ++kind) {
      it->second.nonfinite[phase][kind] = &series_.counter(
          FamilyId::kNonfinite,
          {{"kind", kNonfiniteKindNames[kind]}, {"phase", kPhaseNames[phase]}, {"bucket", admitted}});
    }
  }
  return it->second;
}

}  // namespace stepgate::metrics

#include "integration/examples/charlm/gradients.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stepgate::charlm {
namespace {

// Parameters cut to the piece of the bucket, which is where `memory` starts.
GradientRange range_of(const Bucket& bucket, const void* memory, GradType type, const Piece& piece) {
  GradientRange range{bucket.name, true, true, {}};
  for (const Parameter& parameter : bucket.parameters) {
    const std::size_t start = parameter.offset - bucket.offset;
    const std::size_t from = std::max(start, piece.begin);
    const std::size_t to = std::min(start + parameter.count(), piece.begin + piece.count);
    if (from >= to) continue;
    const void* data = static_cast<const char*>(memory) + (from - piece.begin) * element_size(type);
    range.segments.push_back({parameter.name, data, to - from});
  }
  return range;
}

}  // namespace

void OwnCheck::add(const float* values, std::size_t count) {
  for (std::size_t e = 0; e < count; ++e) {
    const double x = values[e];
    nan |= std::isnan(x);
    inf |= std::isinf(x);
    sum_of_squares += x * x;
  }
}

std::vector<GradientRange> ranges_of(const std::vector<Bucket>& buckets, const std::vector<Piece>& pieces,
                                     const std::vector<BucketMemory>& memory, GradType type, unsigned rank) {
  std::vector<GradientRange> ranges;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    GradientRange full = range_of(buckets[i], memory[i].full, type, {0, buckets[i].count, 0});
    if (memory[i].shard == nullptr) {
      full.counted = rank == 0;
      ranges.push_back(std::move(full));
      continue;
    }
    // A rank whose shard is all padding has nothing to declare.
    if (pieces[i].count > 0) ranges.push_back(range_of(buckets[i], memory[i].shard, type, pieces[i]));
    full.result = false;
    full.name += ".input";
    ranges.push_back(std::move(full));
  }
  return ranges;
}

}  // namespace stepgate::charlm

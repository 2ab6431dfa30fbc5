#include "integration/examples/charlm/buckets.h"

#include <algorithm>

#include "integration/examples/charlm/half.h"

namespace stepgate::charlm {

std::vector<Bucket> buckets_of(const std::vector<Parameter>& parameters, unsigned world) {
  std::vector<Bucket> buckets;
  for (const Parameter& parameter : parameters) {
    if (buckets.empty() || buckets.back().name != parameter.layer) {
      buckets.push_back({parameter.layer, {}, parameter.offset, 0, 0});
    }
    buckets.back().parameters.push_back(parameter);
    buckets.back().count += parameter.count();
  }
  for (Bucket& bucket : buckets) bucket.padded = (bucket.count + world - 1) / world * world;
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

std::vector<Piece> pieces_of(const std::vector<Bucket>& buckets, bool sharded, unsigned rank,
                             unsigned world) {
  std::vector<Piece> pieces;
  std::size_t before = 0;
  for (const Bucket& bucket : buckets) {
    Piece piece{0, bucket.count, before};
    if (sharded) {
      const std::size_t shard = bucket.padded / world;
      piece.begin = std::min(rank * shard, bucket.count);
      piece.count = std::min(shard, bucket.count - piece.begin);
    }
    before += piece.count;
    pieces.push_back(piece);
  }
  return pieces;
}

std::vector<float> gather(const std::vector<Bucket>& buckets, const std::vector<Piece>& pieces,
                          const std::vector<float>& flat) {
  std::vector<float> gathered;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const float* first = flat.data() + buckets[i].offset + pieces[i].begin;
    gathered.insert(gathered.end(), first, first + pieces[i].count);
  }
  return gathered;
}

std::size_t element_size(GradType type) {
  return type == GradType::kFp32 ? 4 : 2;
}

ncclDataType_t nccl_type(GradType type) {
  switch (type) {
    case GradType::kFp16: return ncclFloat16;
    case GradType::kBf16: return ncclBfloat16;
    case GradType::kFp32: break;
  }
  return ncclFloat32;
}

Storage::Storage(GradType type, std::size_t count) : type_(type), count_(count) {
  if (type == GradType::kFp32) {
    floats_.resize(count);
  } else {
    halves_.resize(count);
  }
}

void* Storage::data() {
  return const_cast<void*>(at(0));
}

const void* Storage::at(std::size_t element) const {
  if (type_ == GradType::kFp32) return floats_.data() + element;
  return halves_.data() + element;
}

void Storage::write(std::size_t first, const float* values, std::size_t count) {
  if (type_ == GradType::kFp32) {
    std::copy_n(values, count, floats_.data() + first);
    return;
  }
  const auto pack = type_ == GradType::kFp16 ? half_bits : bfloat_bits;
  std::transform(values, values + count, halves_.data() + first, pack);
}

void Storage::read(std::size_t first, float* values, std::size_t count) const {
  if (type_ == GradType::kFp32) {
    std::copy_n(floats_.data() + first, count, values);
    return;
  }
  const auto unpack = type_ == GradType::kFp16 ? half_value : bfloat_value;
  std::transform(halves_.data() + first, halves_.data() + first + count, values, unpack);
}

}  // namespace stepgate::charlm

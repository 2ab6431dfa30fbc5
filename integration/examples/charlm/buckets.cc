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

std::vector<float> gather_pieces(const std::vector<Bucket>& buckets, const std::vector<Piece>& pieces,
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

void pack(GradType type, const float* values, std::size_t count, void* elements) {
  if (type == GradType::kFp32) {
    std::copy_n(values, count, static_cast<float*>(elements));
    return;
  }
  const auto round = type == GradType::kFp16 ? half_bits : bfloat_bits;
  std::transform(values, values + count, static_cast<std::uint16_t*>(elements), round);
}

void unpack(GradType type, const void* elements, std::size_t count, float* values) {
  if (type == GradType::kFp32) {
    std::copy_n(static_cast<const float*>(elements), count, values);
    return;
  }
  const auto* halves = static_cast<const std::uint16_t*>(elements);
  std::transform(halves, halves + count, values, type == GradType::kFp16 ? half_value : bfloat_value);
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
  pack(type_, values, count, const_cast<void*>(at(first)));
}

void Storage::read(std::size_t first, float* values, std::size_t count) const {
  unpack(type_, at(first), count, values);
}

}  // namespace stepgate::charlm

#include "integration/examples/charlm/zero1.h"

#include <algorithm>

namespace stepgate::charlm {

Zero1::Zero1(const Options& options, const std::vector<Parameter>& parameters,
             const std::vector<float>& initial, unsigned rank, unsigned world, Communicator& communicator)
    : Strategy(options, parameters, rank, world, communicator) {
  for (const Bucket& bucket : buckets_) {
    shards_.emplace_back(grad_type(), shard_size(bucket));
    new_shards_.emplace_back(GradType::kFp16, shard_size(bucket));
    new_buckets_.emplace_back(GradType::kFp16, bucket.padded);
  }
  start(initial, options.learning_rate);
}

std::vector<GradientRange> Zero1::ranges() const {
  std::vector<GradientRange> ranges;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Piece& piece = pieces_[i];
    // A rank whose shard is all padding has nothing to declare.
    if (piece.count > 0) {
      ranges.push_back(range_of(buckets_[i], shards_[i], piece.begin, piece.count, true));
    }
    GradientRange input = range_of(buckets_[i], full_[i], 0, buckets_[i].count, false);
    input.name += ".input";
    ranges.push_back(std::move(input));
  }
  return ranges;
}

Strategy::Piece Zero1::piece_of(const Bucket& bucket) const {
  const std::size_t begin = std::min(rank_ * shard_size(bucket), bucket.count);
  return {begin, std::min(shard_size(bucket), bucket.count - begin), 0};
}

void Zero1::reduce_bucket(std::size_t bucket) {
  communicator_.reduce_scatter(full_[bucket].data(), shards_[bucket].data(), shard_size(buckets_[bucket]),
                               nccl_type(grad_type()), op());
}

void Zero1::read_piece(std::size_t bucket, float* values) const {
  shards_[bucket].read(0, values, pieces_[bucket].count);
}

void Zero1::share(float* weights) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    new_shards_[i].write(0, adam().masters().data() + pieces_[i].adam_first, pieces_[i].count);
    communicator_.all_gather(new_shards_[i].data(), new_buckets_[i].data(), shard_size(buckets_[i]),
                             ncclFloat16);
    new_buckets_[i].read(0, weights + buckets_[i].offset, buckets_[i].count);
  }
}

}  // namespace stepgate::charlm

#include "integration/examples/charlm/zero1.h"

namespace stepgate::charlm {

Zero1::Zero1(const Options& options, const std::vector<Parameter>& parameters,
             const std::vector<float>& initial, unsigned rank, unsigned world, Communicator& communicator)
    : Strategy(options, parameters, initial, rank, world, communicator) {
  for (const Bucket& bucket : buckets_) {
    shards_.emplace_back(grad_type(), bucket.padded / world);
    new_shards_.emplace_back(GradType::kFp16, bucket.padded / world);
    new_buckets_.emplace_back(GradType::kFp16, bucket.padded);
  }
}

std::vector<GradientRange> Zero1::ranges() const {
  std::vector<BucketMemory> memory;
  for (std::size_t i = 0; i < buckets_.size(); ++i) memory.push_back({full_[i].at(0), shards_[i].at(0)});
  return ranges_of(buckets_, pieces_, memory, grad_type(), rank_);
}

void Zero1::reduce_bucket(std::size_t bucket) {
  Storage& shard = shards_[bucket];
  communicator_.reduce_scatter(full_[bucket].data(), shard.data(), shard.count(), nccl_type(grad_type()),
                               op());
}

void Zero1::read_piece(std::size_t bucket, float* values) const {
  shards_[bucket].read(0, values, pieces_[bucket].count);
}

void Zero1::share(float* weights) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    new_shards_[i].write(0, adam().masters().data() + pieces_[i].optimizer_first, pieces_[i].count);
    communicator_.all_gather(new_shards_[i].data(), new_buckets_[i].data(), new_shards_[i].count(),
                             ncclFloat16);
    new_buckets_[i].read(0, weights + buckets_[i].offset, buckets_[i].count);
  }
}

}  // namespace stepgate::charlm

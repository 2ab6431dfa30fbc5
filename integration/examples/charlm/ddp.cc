#include "integration/examples/charlm/ddp.h"

#include "integration/examples/charlm/half.h"

namespace stepgate::charlm {

std::vector<GradientRange> Ddp::ranges() const {
  std::vector<BucketMemory> memory;
  for (const Storage& full : full_) memory.push_back({full.at(0), nullptr});
  return ranges_of(buckets_, pieces_, memory, grad_type(), rank_);
}

// The padding stays out, so that what is reduced is what was declared.
void Ddp::reduce_bucket(std::size_t bucket) {
  communicator_.all_reduce(full_[bucket].data(), buckets_[bucket].count, nccl_type(grad_type()), op());
}

void Ddp::read_piece(std::size_t bucket, float* values) const {
  full_[bucket].read(0, values, pieces_[bucket].count);
}

// Every rank has run the same update on the same bytes.
void Ddp::share(float* weights) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const float* masters = adam().masters().data() + pieces_[i].optimizer_first;
    for (std::size_t e = 0; e < pieces_[i].count; ++e) {
      weights[buckets_[i].offset + e] = round_to_half(masters[e]);
    }
  }
}

}  // namespace stepgate::charlm

#include "integration/examples/charlm/ddp.h"

#include "integration/examples/charlm/half.h"

namespace stepgate::charlm {

Ddp::Ddp(const Options& options, const std::vector<Parameter>& parameters, const std::vector<float>& initial,
         unsigned rank, unsigned world, Communicator& communicator)
    : Strategy(options, parameters, rank, world, communicator) {
  start(initial, options.learning_rate);
}

std::vector<GradientRange> Ddp::ranges() const {
  std::vector<GradientRange> ranges;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    ranges.push_back(range_of(buckets_[i], full_[i], 0, buckets_[i].count, true));
    // Every rank holds the same reduced gradients.
    ranges.back().counted = rank_ == 0;
  }
  return ranges;
}

Strategy::Piece Ddp::piece_of(const Bucket& bucket) const {
  return {0, bucket.count, 0};
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
    const float* masters = adam().masters().data() + pieces_[i].adam_first;
    for (std::size_t e = 0; e < pieces_[i].count; ++e) {
      weights[buckets_[i].offset + e] = round_to_half(masters[e]);
    }
  }
}

}  // namespace stepgate::charlm

// zero1: gradients are reduce-scattered, each rank updates its shard of every bucket, and the new
// weights are all-gathered in fp16. No rank sees all reduced gradients, so none can judge a step
// on its own.
//
// Thread, order, lock, ownership: as strategy.h says.
#pragma once

#include "integration/examples/charlm/strategy.h"

namespace stepgate::charlm {

class Zero1 final : public Strategy {
 public:
  Zero1(const Options& options, const std::vector<Parameter>& parameters, const std::vector<float>& initial,
        unsigned rank, unsigned world, Communicator& communicator);
  std::vector<GradientRange> ranges() const override;
  void share(float* weights) override;

 private:
  void reduce_bucket(std::size_t bucket) override;
  void read_piece(std::size_t bucket, float* values) const override;

  std::vector<Storage> shards_;
  std::vector<Storage> new_shards_;  // weights, fp16
  std::vector<Storage> new_buckets_;
};

}  // namespace stepgate::charlm

// ddp: gradients are all-reduced in place and every rank updates all weights.
//
// Thread, order, lock, ownership: as strategy.h says.
#pragma once

#include "integration/examples/charlm/strategy.h"

namespace stepgate::charlm {

class Ddp final : public Strategy {
 public:
  Ddp(const Options& options, const std::vector<Parameter>& parameters, const std::vector<float>& initial,
      unsigned rank, unsigned world, Communicator& communicator);
  std::vector<GradientRange> ranges() const override;
  void share(float* weights) override;

 private:
  Piece piece_of(const Bucket& bucket) const override;
  void reduce_bucket(std::size_t bucket) override;
  void read_piece(std::size_t bucket, float* values) const override;
};

}  // namespace stepgate::charlm

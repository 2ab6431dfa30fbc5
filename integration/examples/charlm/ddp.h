// ddp: gradients are all-reduced in place and every rank updates all weights.
//
// Thread, order, lock, ownership: as strategy.h says.
#pragma once

#include "integration/examples/charlm/strategy.h"

namespace stepgate::charlm {

class Ddp final : public Strategy {
 public:
  using Strategy::Strategy;
  std::vector<GradientRange> ranges() const override;
  void share(float* weights) override;

 private:
  void reduce_bucket(std::size_t bucket) override;
  void read_piece(std::size_t bucket, float* values) const override;
};

}  // namespace stepgate::charlm

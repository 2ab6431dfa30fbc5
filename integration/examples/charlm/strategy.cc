#include "integration/examples/charlm/strategy.h"

#include <algorithm>

#include "integration/examples/charlm/ddp.h"
#include "integration/examples/charlm/zero1.h"

namespace stepgate::charlm {

Strategy::Strategy(const Options& options, const std::vector<Parameter>& parameters,
                   const std::vector<float>& initial, unsigned rank, unsigned world,
                   Communicator& communicator)
    : rank_(rank),
      communicator_(communicator),
      buckets_(buckets_of(parameters, world)),
      pieces_(pieces_of(buckets_, options.zero1, rank, world)),
      grad_type_(options.grad_type),
      op_(options.reduce_op),
      group_(options.group),
      shares_(op_ == ReduceOp::kSum ? world : 1),
      adam_(gather_pieces(buckets_, pieces_, initial), options.learning_rate) {
  std::size_t largest = 0;
  for (const Piece& piece : pieces_) largest = std::max(largest, piece.count);
  scratch_.resize(largest);
  for (const Bucket& bucket : buckets_) full_.emplace_back(grad_type_, bucket.padded);
}

void Strategy::reduce(const float* gradients) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    full_[i].write(0, gradients + buckets_[i].offset, buckets_[i].count);
  }
  if (group_) communicator_.group_start();
  for (std::size_t i = 0; i < buckets_.size(); ++i) reduce_bucket(i);
  if (group_) communicator_.group_end();
}

void Strategy::update(float grad_scale) {
  const float divisor = adam_divisor(grad_scale, shares_);
  adam_.begin_update();
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    read_piece(i, scratch_.data());
    for (std::size_t e = 0; e < pieces_[i].count; ++e) scratch_[e] /= divisor;
    adam_.update(pieces_[i].optimizer_first, pieces_[i].count, scratch_.data());
  }
}

OwnCheck Strategy::check_own() {
  OwnCheck check;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    read_piece(i, scratch_.data());
    check.add(scratch_.data(), pieces_[i].count);
  }
  return check;
}

std::unique_ptr<Strategy> make_strategy(const Options& options, const std::vector<Parameter>& parameters,
                                        const std::vector<float>& initial, unsigned rank, unsigned world,
                                        Communicator& communicator) {
  if (options.zero1) {
    return std::make_unique<Zero1>(options, parameters, initial, rank, world, communicator);
  }
  return std::make_unique<Ddp>(options, parameters, initial, rank, world, communicator);
}

}  // namespace stepgate::charlm

#include "integration/examples/charlm/strategy.h"

#include <algorithm>
#include <cmath>

#include "integration/examples/charlm/ddp.h"
#include "integration/examples/charlm/zero1.h"

namespace stepgate::charlm {

Strategy::Strategy(const Options& options, const std::vector<Parameter>& parameters, unsigned rank,
                   unsigned world, Communicator& communicator)
    : rank_(rank),
      world_(world),
      communicator_(communicator),
      buckets_(buckets_of(parameters, world)),
      grad_type_(options.grad_type),
      op_(options.reduce_op),
      group_(options.group) {
  for (const Bucket& bucket : buckets_) full_.emplace_back(grad_type_, bucket.padded);
}

void Strategy::start(const std::vector<float>& initial, double learning_rate) {
  std::vector<float> masters;
  std::size_t largest = 0;
  for (const Bucket& bucket : buckets_) {
    Piece piece = piece_of(bucket);
    piece.adam_first = masters.size();
    const float* first = initial.data() + bucket.offset + piece.begin;
    masters.insert(masters.end(), first, first + piece.count);
    largest = std::max(largest, piece.count);
    pieces_.push_back(piece);
  }
  scratch_.resize(largest);
  adam_ = std::make_unique<Adam>(std::move(masters), learning_rate);
}

void Strategy::reduce(const float* gradients) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    full_[i].write(0, gradients + buckets_[i].offset, buckets_[i].count);
  }
  if (group_) communicator_.group_start();
  for (std::size_t i = 0; i < buckets_.size(); ++i) reduce_bucket(i);
  if (group_) communicator_.group_end();
}

void Strategy::update(float multiplier) {
  const auto factor_here = static_cast<float>(multiplier * factor());
  adam_->begin_update();
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    read_piece(i, scratch_.data());
    for (std::size_t e = 0; e < pieces_[i].count; ++e) scratch_[e] *= factor_here;
    adam_->update(pieces_[i].adam_first, pieces_[i].count, scratch_.data());
  }
}

double Strategy::factor() const {
  return op_ == ReduceOp::kSum ? 1.0 / world_ : 1.0;
}

Strategy::OwnCheck Strategy::check_own() const {
  OwnCheck check;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    read_piece(i, scratch_.data());
    for (std::size_t e = 0; e < pieces_[i].count; ++e) {
      const double x = scratch_[e];
      check.nan |= std::isnan(x);
      check.inf |= std::isinf(x);
      check.sum_of_squares += x * x;
    }
  }
  return check;
}

// Parameters cut to [begin, begin + count) of the bucket, which is where `storage` starts.
GradientRange Strategy::range_of(const Bucket& bucket, const Storage& storage, std::size_t begin,
                                 std::size_t count, bool result) const {
  GradientRange range{bucket.name, result, true, {}};
  for (const Parameter& parameter : bucket.parameters) {
    const std::size_t start = parameter.offset - bucket.offset;
    const std::size_t from = std::max(start, begin);
    const std::size_t to = std::min(start + parameter.count(), begin + count);
    if (from < to) range.segments.push_back({parameter.name, storage.at(from - begin), to - from});
  }
  return range;
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

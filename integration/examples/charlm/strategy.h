// How ranks share the work of a step: ddp (every rank updates all weights) or zero1 (each rank
// updates its shard of every bucket and hands it round).
//
//   strategy->reduce(gradients);               the job's own collectives
//   if (!skip) strategy->update(multiplier);
//   strategy->share(weights);
//
// Thread: one per object. Order: reduce() once a step, then update() at most once, then share().
// reduce() and share() are collective: all ranks call them, or none.
// Lock: none. Ownership: owns the communication buffers and the optimizer; the communicator is lent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "integration/examples/charlm/adam.h"
#include "integration/examples/charlm/buckets.h"
#include "integration/examples/charlm/communicator.h"
#include "integration/examples/charlm/options.h"

namespace stepgate::charlm {

// A stretch of memory that a gate should know about. Pointers live as long as the strategy.
struct GradientRange {
  struct Segment {
    std::string name;
    const void* data;
    std::size_t count;
  };
  std::string name;
  bool result;   // else the input of a reduction
  bool counted;  // by this rank for the global norm: of equal copies, one rank counts its own
  std::vector<Segment> segments;
};

class Strategy {
 public:
  Strategy(const Options& options, const std::vector<Parameter>& parameters, unsigned rank, unsigned world,
           Communicator& communicator);
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy() = default;

  // gradients: flat, scaled, of this rank.
  void reduce(const float* gradients);
  // Multiplies the reduced gradients and runs Adam on this rank's pieces.
  void update(float multiplier);
  // Brings every rank all weights (flat, rounded to fp16).
  virtual void share(float* weights) = 0;
  virtual std::vector<GradientRange> ranges() const = 0;

  // What is left to multiply after the reduction: 1, or 1 / world after a sum.
  double factor() const;
  GradType grad_type() const { return grad_type_; }

  // Of this rank's own reduced pieces alone, as a job without an agreement would look at them.
  struct OwnCheck {
    bool nan = false;
    bool inf = false;
    double sum_of_squares = 0;
  };
  OwnCheck check_own() const;

  Adam& adam() { return *adam_; }

 protected:
  // The elements of a bucket that this rank updates, and where Adam keeps them.
  struct Piece {
    std::size_t begin = 0;
    std::size_t count = 0;
    std::size_t adam_first = 0;
  };

  virtual Piece piece_of(const Bucket& bucket) const = 0;
  virtual void reduce_bucket(std::size_t bucket) = 0;
  // The reduced values of the piece.
  virtual void read_piece(std::size_t bucket, float* values) const = 0;

  // Second half of construction, once the pieces are known.
  void start(const std::vector<float>& initial, double learning_rate);
  GradientRange range_of(const Bucket& bucket, const Storage& storage, std::size_t begin, std::size_t count,
                         bool result) const;
  ncclRedOp_t op() const { return op_ == ReduceOp::kSum ? ncclSum : ncclAvg; }

  unsigned rank_;
  unsigned world_;
  Communicator& communicator_;
  std::vector<Bucket> buckets_;
  std::vector<Storage> full_;  // what this rank puts in; ddp: what comes out as well
  std::vector<Piece> pieces_;

 private:
  GradType grad_type_;
  ReduceOp op_;
  bool group_;
  std::unique_ptr<Adam> adam_;
  mutable std::vector<float> scratch_;
};

std::unique_ptr<Strategy> make_strategy(const Options& options, const std::vector<Parameter>& parameters,
                                        const std::vector<float>& initial, unsigned rank, unsigned world,
                                        Communicator& communicator);

}  // namespace stepgate::charlm

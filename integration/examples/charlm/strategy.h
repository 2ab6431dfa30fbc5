// How ranks share the work of a step on the host: ddp (every rank updates all weights) or zero1 (each
// rank updates its shard of every bucket and hands it round).
//
//   strategy->reduce(gradients);               the job's own collectives
//   if (!skip) strategy->update(grad_scale);
//   strategy->share(weights);
//
// Thread: one per object. Order: reduce() once a step, then update() at most once, then share().
// reduce() and share() are collective: all ranks call them, or none.
// Lock: none. Ownership: owns the communication buffers and the optimizer; the communicator is lent.
#pragma once

#include <memory>
#include <vector>

#include "integration/examples/charlm/adam.h"
#include "integration/examples/charlm/communicator.h"
#include "integration/examples/charlm/gradients.h"
#include "integration/examples/charlm/options.h"

namespace stepgate::charlm {

class Strategy : public ReducedGradients {
 public:
  Strategy(const Options& options, const std::vector<Parameter>& parameters,
           const std::vector<float>& initial, unsigned rank, unsigned world, Communicator& communicator);
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  // gradients: flat, scaled, of this rank.
  void reduce(const float* gradients);
  // Divides the reduced gradients and runs Adam on this rank's pieces.
  void update(float grad_scale);
  // Brings every rank all weights (flat, rounded to fp16).
  virtual void share(float* weights) = 0;

  double factor() const override { return 1.0 / shares_; }
  GradType grad_type() const override { return grad_type_; }
  OwnCheck check_own() override;

  Adam& adam() { return adam_; }

 protected:
  virtual void reduce_bucket(std::size_t bucket) = 0;
  // The reduced values of the piece.
  virtual void read_piece(std::size_t bucket, float* values) const = 0;
  ncclRedOp_t op() const { return op_ == ReduceOp::kSum ? ncclSum : ncclAvg; }

  unsigned rank_;
  Communicator& communicator_;
  std::vector<Bucket> buckets_;
  std::vector<Piece> pieces_;
  std::vector<Storage> full_;  // what this rank puts in; ddp: what comes out as well

 private:
  GradType grad_type_;
  ReduceOp op_;
  bool group_;
  double shares_;
  Adam adam_;
  std::vector<float> scratch_;
};

std::unique_ptr<Strategy> make_strategy(const Options& options, const std::vector<Parameter>& parameters,
                                        const std::vector<float>& initial, unsigned rank, unsigned world,
                                        Communicator& communicator);

}  // namespace stepgate::charlm

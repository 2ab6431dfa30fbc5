// Reduced gradients as a judge sees them: what to declare to a gate, and this rank's own look.
//
// Thread: one per object. Order: after the reduction of a step. Lock: none.
// Ownership: pointers live as long as the object that handed them out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "integration/examples/charlm/buckets.h"

namespace stepgate::charlm {

// A stretch of memory that a gate should know about.
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

// Of this rank's own reduced pieces alone, as a job without an agreement would look at them.
struct OwnCheck {
  bool nan = false;
  bool inf = false;
  double sum_of_squares = 0;

  void add(const float* values, std::size_t count);
};

class ReducedGradients {
 public:
  virtual ~ReducedGradients() = default;
  virtual std::vector<GradientRange> ranges() const = 0;
  // What is left to multiply after the reduction: 1, or 1 / world after a sum.
  virtual double factor() const = 0;
  virtual GradType grad_type() const = 0;
  virtual OwnCheck check_own() = 0;
};

// Where a bucket lies: what this rank puts in, and its shard of what comes out (nullptr: in place).
struct BucketMemory {
  const void* full = nullptr;
  const void* shard = nullptr;
};

// In place, every rank holds the same result and rank 0 counts it. Else the shards are results, and the
// full buckets only name parameters.
std::vector<GradientRange> ranges_of(const std::vector<Bucket>& buckets, const std::vector<Piece>& pieces,
                                     const std::vector<BucketMemory>& memory, GradType type, unsigned rank);

}  // namespace stepgate::charlm

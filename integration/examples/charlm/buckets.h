// How gradients travel: one bucket per layer, in the order in which the backward finishes them,
// padded so that it divides into equal shards.
//
// Thread: any (plain data). Order, lock: none. Ownership: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"
#include "integration/examples/charlm/model.h"
#include "integration/examples/charlm/options.h"

namespace stepgate::charlm {

struct Bucket {
  std::string name;  // the layer's
  std::vector<Parameter> parameters;
  std::size_t offset = 0;  // in the flat arrays
  std::size_t count = 0;   // elements
  std::size_t padded = 0;  // a multiple of the number of ranks
};

std::vector<Bucket> buckets_of(const std::vector<Parameter>& parameters, unsigned world);

// The elements of a bucket that a rank updates, and where its optimizer keeps them.
struct Piece {
  std::size_t begin = 0;
  std::size_t count = 0;
  std::size_t optimizer_first = 0;
};

// One per bucket: all of it, or the rank's shard without the padding.
std::vector<Piece> pieces_of(const std::vector<Bucket>& buckets, bool sharded, unsigned rank, unsigned world);
// The flat array cut to the pieces, one after the other.
std::vector<float> gather_pieces(const std::vector<Bucket>& buckets, const std::vector<Piece>& pieces,
                                 const std::vector<float>& flat);

// To fp32, fp16 or bf16 elements, rounded to nearest even, and back.
void pack(GradType type, const float* values, std::size_t count, void* elements);
void unpack(GradType type, const void* elements, std::size_t count, float* values);

// An array of such elements.
class Storage {
 public:
  Storage(GradType type, std::size_t count);

  GradType type() const { return type_; }
  std::size_t count() const { return count_; }
  void* data();
  const void* at(std::size_t element) const;
  void write(std::size_t first, const float* values, std::size_t count);
  void read(std::size_t first, float* values, std::size_t count) const;

 private:
  GradType type_;
  std::size_t count_;
  std::vector<float> floats_;  // one of the two holds the elements
  std::vector<std::uint16_t> halves_;
};

std::size_t element_size(GradType type);
ncclDataType_t nccl_type(GradType type);

}  // namespace stepgate::charlm

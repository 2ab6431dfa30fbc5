// A rank's checkpoint: where the run stands, the weights, its optimizer, and the judge's state.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "integration/examples/charlm/adam.h"

namespace stepgate::charlm {

struct Checkpoint {
  std::uint64_t step = 0;  // the last one done
  bool gated = false;
  std::vector<float> weights;  // as the model computes with them
  Adam::State adam;
  std::vector<unsigned char> judge;
};

// Through a temporary name, so that a reader never sees half a file. Throw std::runtime_error.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);
Checkpoint read_checkpoint(const std::string& path);

std::string path_of_rank(const std::string& path, unsigned rank);

}  // namespace stepgate::charlm

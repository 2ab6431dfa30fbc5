// A rank's checkpoint: whose it is, where the run stands, the weights, its optimizer, the judge's state.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "integration/examples/charlm/adam.h"

namespace stepgate::charlm {

// Whose state it is. All but the rank are the same in every file of one checkpoint.
struct CheckpointHeader {
  std::uint64_t rank = 0;
  std::uint64_t world = 1;
  std::uint64_t zero1 = 0;  // 1: zero1, 0: ddp
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  // the last one done
  std::uint64_t run = 0;   // the run that wrote it: two runs that stop at one step still differ
  std::uint64_t gated = 0;

  bool operator==(const CheckpointHeader&) const = default;
};

struct Checkpoint {
  CheckpointHeader header;
  std::vector<float> weights;  // as the model computes with them
  Adam::State adam;
  std::vector<unsigned char> judge;
};

// Throw std::runtime_error. What is read is what was written: a checksum over the whole file says so.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);
Checkpoint read_checkpoint(const std::string& path);

// The header belongs to this rank of such a run, which goes on to last_step. `wanted` gives rank, world,
// zero1 and seed. Throws std::invalid_argument naming what differs, its value and what is allowed.
void check_header(const CheckpointHeader& header, const CheckpointHeader& wanted, std::uint64_t last_step,
                  const std::string& path);

// The files of all ranks are one checkpoint; by_rank: one header per rank. Empty, or what is wrong.
std::string mixture(const std::vector<CheckpointHeader>& by_rank);

std::string path_of_rank(const std::string& path, unsigned rank);

}  // namespace stepgate::charlm

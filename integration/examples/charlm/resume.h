// The start of a run with checkpoints: every rank reads its file, and the ranks compare what they read.
//
// Thread: one per object of the run. Order: once, before the first step; collective. Lock: none.
// Ownership: values.
#pragma once

#include <functional>

#include "integration/examples/charlm/checkpoint.h"
#include "integration/examples/charlm/engine.h"
#include "integration/examples/charlm/options.h"

namespace stepgate::charlm {

struct Resumed {
  Checkpoint checkpoint;  // empty without --resume
  std::uint64_t run = 0;  // one random number on all ranks, for the checkpoint that this run writes
};

// own: rank, world, strategy and seed of this rank. restore: puts the checkpoint into the model, and
// throws for one that does not fit. A file that one rank refuses, or files of different checkpoints,
// make every rank throw: std::runtime_error, or std::invalid_argument for a wrong option.
Resumed resume_together(const Options& options, const CheckpointHeader& own, Engine& engine,
                        const std::function<void(const Checkpoint&)>& restore);

}  // namespace stepgate::charlm

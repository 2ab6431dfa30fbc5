// One rank's training run.
//
// Thread: one per object; N ranks may run as N threads. Order: run() once. Lock: none.
// Ownership: owns model and engine; the text, the communicator and the device are lent.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "integration/examples/charlm/checkpoint.h"
#include "integration/examples/charlm/communicator.h"
#include "integration/examples/charlm/engine.h"
#include "integration/examples/charlm/model.h"
#include "integration/examples/charlm/options.h"
#include "integration/examples/charlm/report.h"
#include "integration/examples/charlm/resume.h"
#include "integration/examples/charlm/text.h"

namespace stepgate::charlm {

class Trainer {
 public:
  // Collective: the ranks agree on who judges. Throws std::runtime_error, std::invalid_argument.
  Trainer(const Options& options, const Text& text, unsigned rank, unsigned world, Communicator& communicator,
          Device* device = nullptr);

  // Trains, writes checkpoint and report, lingers. Throws std::runtime_error.
  void run();

 private:
  CheckpointHeader header() const;
  Checkpoint resume();
  void restore(const Checkpoint& checkpoint);
  void one_step(std::uint64_t step);
  void fill_batch(std::uint64_t step);
  void inject_faults(std::uint64_t step);
  void inject_one(const Injection& injection);
  void show_progress(std::uint64_t step, const Verdict& verdict);
  void show_skip(const Verdict& verdict);
  void save();
  void report();
  void linger() const;

  const Options& options_;
  const Text& text_;
  unsigned rank_;
  unsigned world_;
  Sampler sampler_;
  Model<float> model_;
  Batch batch_;
  std::vector<float> weights_;
  std::vector<float> gradients_;
  std::unique_ptr<Engine> engine_;
  std::uint64_t done_ = 0;  // steps
  std::uint64_t run_ = 0;   // a number of this run, the same on all ranks
  std::vector<double> losses_;
  std::vector<Injection> injected_;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point shown_;
};

}  // namespace stepgate::charlm

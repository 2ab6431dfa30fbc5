// The command line of charlm.
//
// Thread: any. Order, lock: none. Ownership: the options own their strings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "integration/examples/charlm/inject.h"

namespace stepgate::charlm {

enum class GradType { kFp32, kFp16, kBf16 };
enum class ReduceOp { kAverage, kSum };
// What is captured as a CUDA graph.
enum class Graph { kNone, kOptimizer, kStep };

struct Options {
  std::string text = "/usr/share/common-licenses/GPL-3";
  std::uint64_t steps = 400;  // the last step; a resumed run goes on to it
  std::size_t batch = 64;     // per rank
  std::uint64_t seed = 1;
  std::size_t context = 16;
  std::size_t hidden = 128;
  std::size_t layers = 2;
  double learning_rate = 2e-3;

  bool zero1 = false;  // else ddp
  GradType grad_type = GradType::kFp32;
  ReduceOp reduce_op = ReduceOp::kAverage;
  bool group = true;  // all buckets inside one ncclGroup
  bool cuda = false;  // gradients and optimizer in device memory
  Graph graph = Graph::kNone;

  // Not set: from StepGate's own configuration.
  std::optional<double> initial_scale;
  std::optional<std::uint64_t> interval;
  std::optional<double> max_norm;
  std::string rule;

  std::vector<Injection> injections;
  std::optional<RandomInjections> random_injections;
  std::string checkpoint;
  std::string resume;
  std::string json;
  bool progress = false;
  double linger_seconds = 0;
  double bootstrap_seconds = 60;
  unsigned threads = 0;  // 0: one rank per process
  bool help = false;
};

// Throws std::invalid_argument naming the option, the value and what is allowed.
Options parse_options(int argc, char** argv);
const char* help_text() noexcept;

}  // namespace stepgate::charlm

// Who decides whether a step is applied: a StepGate gate, or without the plugin this rank alone.
//
//   double scale = judge->begin();  ... backward, reduce ...  Verdict v = judge->end();
//
// Thread: one per object. Order: begin() and end() in turn. Lock: none.
// Ownership: lent the gradients and the communicator; owns the gate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "integration/examples/charlm/communicator.h"
#include "integration/examples/charlm/gradients.h"
#include "integration/examples/charlm/options.h"

namespace stepgate::charlm {

struct StepRow {
  std::uint64_t step = 0;
  bool skip = false;
  std::string reason;  // "none", "nan", "inf", "veto", "norm"
  double scale = 0;
  double norm = 0;  // not a number: unknown
};

struct OffenderRow {
  std::uint64_t step = 0;
  int rank = 0;
  bool nan = false;
  std::string parameter;
};

struct Verdict {
  StepRow row;
  float grad_scale = 1;  // the gradients are divided by it
  int blamed = -3;       // a rank, or below zero: the reduction, several, unknown
};

class Judge {
 public:
  virtual ~Judge() = default;
  virtual bool gated() const = 0;
  // The loss scale of the step that begins.
  virtual double begin() = 0;
  // Throws std::runtime_error when the ranks' agreement has ended.
  virtual Verdict end() = 0;
  // This rank's records, oldest first, as whoever judged kept them.
  virtual const std::vector<StepRow>& steps() = 0;
  virtual const std::vector<OffenderRow>& offenders() = 0;
  virtual std::string metrics_url() const = 0;
  virtual std::vector<unsigned char> save() = 0;
};

// What a judge is made from. state: of a checkpoint, empty at a fresh start; steps_done: likewise.
struct JudgeContext {
  const Options& options;
  unsigned rank;
  unsigned world;
  Communicator& communicator;
  ReducedGradients& gradients;
  std::vector<unsigned char> state;
  std::uint64_t steps_done = 0;
  void* stream = nullptr;  // that the gradients are reduced on; none on the host
};

// A gate in enforce where the plugin is there and all ranks agree to it, else the naive judge.
// Collective. Throws std::runtime_error.
std::unique_ptr<Judge> make_judge(const JudgeContext& context);

}  // namespace stepgate::charlm

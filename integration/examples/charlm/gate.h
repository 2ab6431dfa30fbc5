// The job's StepGate gate: made, told of the gradients, activated; and what it has recorded.
//
// Thread: one per object. Order: create(), enforce(), then step after step. Lock: none.
// Ownership: owns the gate, which is destroyed before the communicator and the gradients it watches.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "integration/examples/charlm/judge.h"
#include "stepgate/client.h"

namespace stepgate::charlm {

class Gate {
 public:
  // Null where no plugin answers. Throws std::runtime_error.
  static std::unique_ptr<Gate> create(const JudgeContext& context);
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate();

  // Collective. False: refused, or the mode is not enforce.
  bool enforce();

  stepgate_gate* handle() const { return gate_; }
  void* stream() const { return stream_; }
  // Throws std::runtime_error with the plugin's own words.
  static void check(stepgate_status status, const char* what);

  // The decisions so far, oldest first. Asks the plugin for the newest; call it now and then, since the
  // plugin keeps 1,024. Waits for nothing.
  const std::vector<StepRow>& steps();
  // As above, where many have come since it was asked last.
  void keep_up(std::uint64_t newest_step);
  // Of those that steps() has fetched; step 0: none yet.
  const stepgate_decision& newest() const { return newest_; }
  // Of one step, once its decision is known.
  void fetch_offenders(std::uint64_t step);
  const std::vector<OffenderRow>& offenders() const { return offenders_; }
  std::string metrics_url() const;
  std::vector<unsigned char> save();

 private:
  Gate(const JudgeContext& context, stepgate_gate* gate);
  void declare(const ReducedGradients& gradients);

  Communicator& communicator_;
  stepgate_gate* gate_;
  void* stream_;
  std::uint64_t fetched_;  // newest step of steps_
  stepgate_decision newest_{};
  std::vector<StepRow> steps_;
  std::vector<OffenderRow> offenders_;
};

StepRow row_of(const stepgate_decision& decision);

}  // namespace stepgate::charlm

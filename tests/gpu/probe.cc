// The plugin's device as a shared object for torch_baseline.py, so that both are measured in one process,
// on one stream, over the same tensors.
//
// Thread: the caller's one. Ownership: what probe_open and probe_step return is closed by probe_*_close.
#include "tests/gpu/gate_step.h"

namespace stepgate::gpu {
namespace {

struct Probe {
  Session session;
};

struct ProbedStep {
  GateStep step;
};

#define STEPGATE_PROBE extern "C" __attribute__((visibility("default")))

STEPGATE_PROBE void* probe_open(const char* image) {
  Options options;
  options.image = image;
  return new Probe{Session(options)};
}

STEPGATE_PROBE void probe_close(void* probe) {
  delete static_cast<Probe*>(probe);
}

STEPGATE_PROBE void* probe_stream(void* probe) {
  return static_cast<Probe*>(probe)->session.stream();
}

// type: ElementType's number. pointers, counts: n tensors in device memory, which outlive the step.
STEPGATE_PROBE void* probe_step(void* probe, int type, const std::uint64_t* pointers,
                                const std::uint64_t* counts, std::uint64_t n) {
  StepShape shape;
  for (std::uint64_t i = 0; i < n; ++i) {
    shape.given.push_back(
        {reinterpret_cast<const void*>(static_cast<std::uintptr_t>(pointers[i])), counts[i]});
  }
  return new ProbedStep{GateStep(static_cast<Probe*>(probe)->session, static_cast<ElementType>(type), shape)};
}

STEPGATE_PROBE void probe_step_close(void* step) {
  delete static_cast<ProbedStep*>(step);
}

// Everything that a deferred step adds to a job's own: 1 where it was enqueued.
STEPGATE_PROBE int probe_run(void* step) {
  GateStep& s = static_cast<ProbedStep*>(step)->step;
  return s.begin() && s.reduced_scans() && s.summarize() && s.finish();
}

// The scan alone.
STEPGATE_PROBE int probe_scan(void* step) {
  return static_cast<ProbedStep*>(step)->step.reduced_scans();
}

// Waits. The gradient norm of the last step, in fp64.
STEPGATE_PROBE double probe_norm(void* step) {
  return static_cast<ProbedStep*>(step)->step.block().sets[0].decision.norm;
}

}  // namespace
}  // namespace stepgate::gpu

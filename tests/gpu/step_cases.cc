// Steps: against HostDevice, and captured into graphs whole, in their backward alone, in their optimizer
// alone; every replay is the next step.
#include <cstring>

#include "collectives/device/host/host_device.h"
#include "collectives/device/host/kernels.h"
#include "tests/collectives/device_cuda_driver/device_job.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/gate_step.h"
#include "tests/gpu/inputs.h"
#include "tests/test_seed.h"

namespace stepgate::gpu {
namespace {

using test::DeviceJob;
using test::JobPlan;
using test::JobTrace;
using test::Spoil;

JobTrace on_host(const JobPlan& plan, std::string* error) {
  device::HostDevice host(device::host::reference_kernels());
  return DeviceJob::run(host, nullptr, plan, error);
}

std::string eager_is_hosts(Session& session, const JobPlan& plan) {
  std::string error;
  const JobTrace want = on_host(plan, &error);
  const JobTrace got = DeviceJob::run(session.device(), session.stream(), plan, &error);
  return error.empty() ? difference(got, want) : error;
}

std::string replays_are_hosts(Session& session, const JobPlan& plan) {
  std::string error;
  const JobTrace want = on_host(plan, &error);
  DeviceJob job(session.device(), session.stream(), plan);
  if (!error.empty() || !job.usable() || !job.start(&error)) return "start: " + error;
  Graph graph(session, [&] { return job.enqueue_step(Spoil::kNothing, &error); });
  if (!graph.problem().empty()) return graph.problem();
  JobTrace got;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    for (std::size_t r = 0; r < plan.ranges.size(); ++r) {
      if (!job.fill(r, r == i % plan.ranges.size() ? plan.steps[i] : Spoil::kNothing, &error)) return error;
    }
    if (!graph.launch()) return "launch";
    if (!job.collect(&got, &error)) return error;
  }
  return difference(got, want);
}

struct Trace {
  std::vector<Bytes> gradients;
  std::vector<GateBlock> blocks;
};

// What the pieces of a step are run by: enqueued at once, or replayed.
struct Pieces {
  bool backward_as_graph = false;
  bool optimizer_as_graph = false;
};

constexpr int kSteps = 5;

// Steps 2 and 4 have an inf and a NaN.
std::string run_steps(Session& session, const Pieces& pieces, std::uint64_t elements, Trace* trace) {
  constexpr ElementType kType = ElementType::kFp16;
  GateStep step(session, kType, {.buckets = 3, .elements = elements, .segments = 2, .given = {}});
  const auto backward = [&] { return step.local_scans() && step.all_scans(); };
  const auto optimizer = [&] { return step.optimizer(); };
  std::unique_ptr<Graph> backward_graph, optimizer_graph;
  if (pieces.backward_as_graph) backward_graph = std::make_unique<Graph>(session, backward);
  if (pieces.optimizer_as_graph) optimizer_graph = std::make_unique<Graph>(session, optimizer);
  for (const auto* graph : {&backward_graph, &optimizer_graph}) {
    if (*graph != nullptr && !(*graph)->problem().empty()) return (*graph)->problem();
  }
  for (int i = 1; i <= kSteps; ++i) {
    Bytes bytes = healthy_bytes(kType, 3 * elements, test_seed() + static_cast<std::uint64_t>(i));
    const std::uint64_t bad = i == 4 ? nan_of(kType) : static_cast<std::uint64_t>(infinity_of(kType));
    if (i % 2 == 0) std::memcpy(bytes.data() + 2 * (2 * elements - 1), &bad, 2);
    step.put(bytes);
    const bool enqueued = step.begin() &&
                          (backward_graph != nullptr ? backward_graph->launch() : backward()) &&
                          step.summarize() && step.finish() &&
                          (optimizer_graph != nullptr ? optimizer_graph->launch() : optimizer());
    if (!enqueued) return session.device().last_error();
    trace->blocks.push_back(step.block());
    trace->gradients.push_back(step.get());
    if ((trace->gradients.back() == bytes) != (i % 2 == 0))
      return "step " + std::to_string(i) + ": the wrong decision";
  }
  return step.records() == kSteps ? "" : "records: " + std::to_string(step.records());
}

std::string same_as_eager(Session& session, const Pieces& pieces, std::uint64_t elements) {
  Trace eager, replayed;
  std::string problem = run_steps(session, {}, elements, &eager);
  if (problem.empty()) problem = run_steps(session, pieces, elements, &replayed);
  if (!problem.empty()) return problem;
  for (std::size_t i = 0; i < eager.blocks.size(); ++i) {
    const bool same = eager.gradients[i] == replayed.gradients[i] &&
                      std::memcmp(&eager.blocks[i], &replayed.blocks[i], sizeof(GateBlock)) == 0;
    if (!same) return "step " + std::to_string(i + 1) + " differs";
  }
  return "";
}

}  // namespace

void step_cases(Session& session, const Options& options, Results& results) {
  JobPlan plan = test::random_plan(test_seed());
  results.check("five steps of four types: every byte as on the host", eager_is_hosts(session, plan));
  plan.steps = {Spoil::kNothing, Spoil::kInf, Spoil::kNothing, Spoil::kNan, Spoil::kNothing};
  results.check("a whole step captured: five replays as on the host", replays_are_hosts(session, plan));
  const std::uint64_t elements = options.small ? 9000 : 3000001;
  results.check("backward captured alone", same_as_eager(session, {.backward_as_graph = true}, elements));
  results.check("optimizer captured alone", same_as_eager(session, {.optimizer_as_graph = true}, elements));
  results.check("both captured, the step end between them",
                same_as_eager(session, {.backward_as_graph = true, .optimizer_as_graph = true}, elements));
}

}  // namespace stepgate::gpu

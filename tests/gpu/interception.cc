// One rank of NCCL's, with the plugin preloaded and nothing else done for it: run as
//
//   LD_PRELOAD=.../libstepgate.so STEPGATE_MODE=enforce STEPGATE_METRICS_PORT=0 interception ...
//
// An optimizer on the device reads found_inf where the plugin keeps it; the host is never told.
#include <time.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "stepgate/client.h"
#include "tests/gpu/baselines.h"
#include "tests/gpu/gated_job.h"
#include "tests/gpu/inputs.h"
#include "tests/gpu/metrics_page.h"
#include "tests/gpu/results.h"
#include "tests/test_seed.h"

// NCCL's own name for the same function: calls to it are not hooked.
extern "C" ncclResult_t pncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                                       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);

namespace stepgate::gpu {
namespace {

using device::cuda::Result;

// What each step's gradient holds besides healthy values.
constexpr float kSpoils[] = {0, INFINITY, 0, NAN, 0, 0};
constexpr std::size_t kSteps = std::size(kSpoils);
constexpr int kApplied = 4;

std::vector<float> gradient(std::size_t n, float spoil) {
  const Bytes bytes = healthy_bytes(ElementType::kFp32, n, test_seed());
  std::vector<float> values(n);
  __builtin_memcpy(values.data(), bytes.data(), bytes.size());
  if (spoil != 0) values[n / 3] = spoil;
  return values;
}

// The kernel that stands for an optimizer: reads found_inf on the device, and counts the steps it took.
class DeviceOptimizer {
 public:
  DeviceOptimizer(Session& session, const Options& options, GatedJob& job)
      : session_(session), job_(job), weights_(session, job.elements() * sizeof(float)), taken_(session, 8) {
    std::ifstream file(options.baselines, std::ios::binary);
    image_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    const auto& api = session.driver().api();
    if (image_.empty() ||
        session.driver().call(api.ModuleLoadData, &module_, image_.data()) != Result::kSuccess ||
        session.driver().call(api.ModuleGetFunction, &function_, module_, "baseline_optimizer") !=
            Result::kSuccess) {
      give_up("the optimizer's kernel does not load: " + options.baselines);
    }
  }
  ~DeviceOptimizer() { session_.driver().call(session_.driver().api().ModuleUnload, module_); }
  DeviceOptimizer(const DeviceOptimizer&) = delete;
  DeviceOptimizer& operator=(const DeviceOptimizer&) = delete;

  bool step() {
    OptimizerArguments a{weights_.as<float>(),
                         job_.gradients(),
                         job_.elements(),
                         &job_.outputs_address()->found_inf,
                         &job_.outputs_address()->multiplier,
                         taken_.as<unsigned long long>(),
                         1e-3f};
    void* list[] = {&a};
    return session_.driver().call(session_.driver().api().LaunchKernel, function_, 64u, 1u, 1u,
                                  kBaselineThreads, 1u, 1u, 0u, session_.handle(), list,
                                  static_cast<void**>(nullptr)) == Result::kSuccess;
  }
  unsigned long long steps_taken() const { return taken_.value<unsigned long long>(); }

 private:
  Session& session_;
  GatedJob& job_;
  Buffer weights_, taken_;
  std::string image_;
  device::cuda::ModuleHandle module_ = nullptr;
  device::cuda::FunctionHandle function_ = nullptr;
};

std::string judge_step(GatedJob& job, std::size_t i) {
  const bool bad = kSpoils[i] != 0;
  stepgate_decision decision;
  const std::string problem = job.decide(&decision);
  if (!problem.empty()) return problem;
  const std::string step = "step " + std::to_string(i + 1) + ": ";
  if ((decision.skip != 0) != bad) return step + "skip is " + std::to_string(decision.skip);
  const int reason = !bad                     ? STEPGATE_REASON_NONE
                     : std::isnan(kSpoils[i]) ? STEPGATE_REASON_NAN
                                              : STEPGATE_REASON_INF;
  if (decision.reason != reason) return step + "reason is " + std::to_string(decision.reason);
  const float found_inf = job.outputs().found_inf;
  return found_inf == (bad ? 1.0f : 0.0f) ? "" : step + "found_inf is " + std::to_string(found_inf);
}

std::string run_steps(GatedJob& job, DeviceOptimizer* optimizer) {
  for (std::size_t i = 0; i < kSteps; ++i) {
    job.put(gradient(job.elements(), kSpoils[i]));
    std::string problem = job.step();
    if (problem.empty() && optimizer != nullptr && !optimizer->step())
      problem = "the optimizer's launch failed";
    if (problem.empty()) problem = judge_step(job, i);
    if (!problem.empty()) return problem;
  }
  return "";
}

// The publisher thread reads the steps a moment later.
std::string page_counts(int* families) {
  char url[256];
  if (stepgate_client_metrics_url(url, sizeof url) != STEPGATE_OK) return "no metrics page";
  std::string problem = "no page at " + std::string(url);
  for (int i = 0; i < 100; ++i) {
    const std::string page = fetch_page(url);
    const double applied = sum_of_family(page, "stepgate_steps_applied_total");
    const double skipped = sum_of_family(page, "stepgate_steps_skipped_total");
    *families = families_of(page);
    if (applied == kApplied && skipped == kSteps - kApplied) return "";
    problem = "applied " + std::to_string(applied) + ", skipped " + std::to_string(skipped);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return problem;
}

double thread_cpu_microseconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e6 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_nsec);
}

struct CallCost {
  double plain = 0;   // microseconds of CPU time
  double hooked = 0;  // of the same call with the hook and its scans
};

CallCost cost_of_calls(GatedJob& job, Session& session, int calls) {
  CallCost cost;
  for (int round = 0; round < 10; ++round) {
    for (const bool with_hook : {true, false}) {
      const double begin = thread_cpu_microseconds();
      for (int i = 0; i < calls / 10; ++i) {
        auto* data = const_cast<float*>(job.gradients());
        const auto reduce = with_hook ? ncclAllReduce : pncclAllReduce;
        reduce(data, data, job.elements(), ncclFloat32, ncclSum, job.communicator(), job.stream());
      }
      (with_hook ? cost.hooked : cost.plain) += (thread_cpu_microseconds() - begin) / calls;
      session.wait();
    }
  }
  return cost;
}

// Everything of a step in one graph: found_inf follows the gradients from replay to replay.
std::string captured_steps(GatedJob& job, Session& session) {
  std::string problem;
  Graph graph(session, [&] {
    problem = job.step();
    return problem.empty();
  });
  if (!graph.problem().empty()) return graph.problem() + " " + problem;
  for (std::size_t i = 0; i < kSteps; ++i) {
    job.put(gradient(job.elements(), kSpoils[i]));
    if (!graph.launch()) return "launch";
    if (job.outputs().found_inf != (kSpoils[i] != 0 ? 1.0f : 0.0f)) return "replay " + std::to_string(i + 1);
  }
  return "";
}

}  // namespace

int intercept(const Options& options) {
  Results results(options.results, "interception");
  Session session(options);
  GatedJob job(session, options.small ? 20000 : 4000001);
  int version = 0;
  ncclGetVersion(&version);
  results.figure("version of NCCL", version, "");
  results.check("gate over a communicator of one rank", job.problem());
  if (!job.problem().empty()) return 1;
  std::unique_ptr<DeviceOptimizer> optimizer;
  if (!options.standin) optimizer = std::make_unique<DeviceOptimizer>(session, options, job);
  results.check("six steps: decisions, reasons and found_inf", run_steps(job, optimizer.get()));
  if (optimizer != nullptr) {
    const bool right = optimizer->steps_taken() == kApplied;
    results.check("the kernel that reads found_inf took the four good steps alone",
                  right ? "" : std::to_string(optimizer->steps_taken()) + " steps");
  } else {
    results.skipped("the kernel that reads found_inf", "no kernel but the project's own runs on a stand-in");
  }
  int families = 0;
  results.check("metrics page: 4 applied, 2 skipped", page_counts(&families));
  results.figure("families on the metrics page", families, "");
  // One rank's call moves nothing, so a ratio of the two would say nothing about calls that do.
  const CallCost cost = cost_of_calls(job, session, options.small ? 100 : 2000);
  results.figure("CPU time that hook and scans add to a call", cost.hooked - cost.plain, "us");
  results.figure("CPU time of NCCL's own call of one rank", cost.plain, "us");
  results.check("a whole step captured with NCCL's call: replays", captured_steps(job, session));
  return results.failed() ? 1 : 0;
}

}  // namespace stepgate::gpu

int main(int argc, char** argv) {
  return stepgate::gpu::intercept(stepgate::gpu::options_from(argc, argv));
}

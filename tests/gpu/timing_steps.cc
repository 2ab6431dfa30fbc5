#include <time.h>

#include <map>

#include "tests/gpu/gate_step.h"
#include "tests/gpu/timing_cases.h"

namespace stepgate::gpu {
namespace {

class Counter : public device::cuda::CallWatcher {
 public:
  explicit Counter(Session& session) : session_(session) { session.driver().watch(this); }
  ~Counter() override { session_.driver().watch(nullptr); }

  void called(const char* function, device::cuda::Result) noexcept override { ++calls_[function]; }

  int all() const {
    int n = 0;
    for (const auto& [name, count] : calls_) n += count;
    return n;
  }
  int launches() const { return of("cuLaunchKernel"); }
  // Names of calls that wait, ask for progress, or allocate.
  std::string forbidden() const {
    std::string found;
    for (const auto& [name, count] : calls_) {
      for (const char* part :
           {"Synchronize", "Query", "MemAlloc", "MemFree", "MemHostAlloc", "EventCreate"}) {
        if (name.find(part) != std::string::npos) found += name + " ";
      }
    }
    return found;
  }

 private:
  int of(const std::string& name) const {
    const auto it = calls_.find(name);
    return it == calls_.end() ? 0 : it->second;
  }

  Session& session_;
  std::map<std::string, int> calls_;
};

std::string within(int have, int most, int per) {
  return have <= most * per ? "" : std::to_string(have) + " for " + std::to_string(per);
}

double thread_cpu_microseconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e6 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_nsec);
}

}  // namespace

void count_calls(Session& session, Results& results) {
  constexpr std::size_t kBuckets = 5;
  GateStep step(session, ElementType::kBf16,
                {.buckets = kBuckets, .elements = 9000, .segments = 7, .given = {}});
  std::string forbidden;
  const auto count = [&](const char* what, auto piece, int most_calls, int most_launches, int per) {
    const Counter counter(session);
    if (!piece()) give_up(session.device().last_error());
    forbidden += counter.forbidden();
    results.check(std::string("driver calls: ") + what + ", at most " + std::to_string(most_calls),
                  within(counter.all(), most_calls, per));
    results.check(std::string("launches: ") + what + ", at most " + std::to_string(most_launches),
                  within(counter.launches(), most_launches, per));
  };
  count(
      "step begin", [&] { return step.begin(); }, 2, 1, 1);
  count(
      "a bucket's local scan", [&] { return step.local_scans(); }, 2, 1, kBuckets);
  count(
      "a bucket's scan", [&] { return step.reduced_scans(); }, 2, 1, kBuckets);
  count(
      "five buckets' scans at step end", [&] { return step.all_scans(); }, 2, 1, 1);
  count(
      "apply to five buckets", [&] { return step.optimizer(); }, 2, 1, 1);
  count(
      "summarize and finish", [&] { return step.summarize() && step.finish(); }, 4, 2, 1);
  session.wait();
  results.check("a step waits for nothing, asks nothing, allocates nothing", forbidden);
}

void time_step(Session& session, const Options& options, Timer& timer, Results& results) {
  const std::uint64_t elements = options.small ? 20000 : std::uint64_t{16} << 20;
  GateStep step(session, ElementType::kBf16,
                {.buckets = 4, .elements = elements, .segments = 10, .given = {}});
  if (!step.begin()) give_up(session.device().last_error());
  const auto scans = [&] { return step.reduced_scans(); };
  const auto tail = [&] { return step.summarize() && step.finish(); };
  const auto both = [&] { return scans() && tail(); };
  results.at_most("tail in a stream, us", timer.median_behind(scans, tail), 12,
                  "summarize and finish behind the last scan");
  Graph with_tail(session, both);
  Graph without(session, scans);
  if (!with_tail.problem().empty() || !without.problem().empty()) {
    results.check("tail in a graph: captured", with_tail.problem() + without.problem());
    return;
  }
  const std::vector<double> graphs = timer.medians(
      {{"with", [&] { return with_tail.launch(); }}, {"without", [&] { return without.launch(); }}});
  results.at_most("tail in a graph, us", graphs[0] - graphs[1], 6,
                  "graph with the tail minus the same without");
  const int calls = options.small ? 20 : 2000;
  GateStep small(session, ElementType::kBf16, {.buckets = 1, .elements = 8192, .segments = 1, .given = {}});
  const double before = thread_cpu_microseconds();
  for (int i = 0; i < calls; ++i) {
    if (!small.reduced_scans()) give_up(session.device().last_error());
    if (i % 200 == 199) session.wait();
  }
  results.figure("host CPU time of one scan call", (thread_cpu_microseconds() - before) / calls, "us");
  session.wait();
}

}  // namespace stepgate::gpu

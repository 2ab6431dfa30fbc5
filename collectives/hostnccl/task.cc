#include "collectives/hostnccl/task.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "collectives/hostnccl/guarded.h"
#include "collectives/hostnccl/job.h"
#include "collectives/hostnccl/launch.h"

namespace stepgate::hostnccl {
namespace {

// The tasks of one communicator.
struct Line {
  Communicator* comm;
  std::vector<std::size_t> places;
};

// Holds threads back until it is known that there are enough of them.
class StartSignal {
 public:
  void give(bool go) noexcept {
    word_ = go ? kGo : kGiveUp;
    word_.notify_all();
  }
  bool wait() const noexcept {
    word_.wait(kHold);
    return word_ == kGo;
  }

 private:
  enum Word { kHold, kGo, kGiveUp };
  std::atomic<Word> word_ = kHold;
};

std::vector<Line> lines_of(const std::vector<Task>& tasks) {
  std::vector<Line> lines;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    Communicator* comm = tasks[i].comm.get();
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& l) { return l.comm == comm; });
    if (line == lines.end()) line = lines.insert(lines.end(), {comm, {}});
    line->places.push_back(i);
  }
  return lines;
}

void forget(const Task& task) noexcept {
  (void)guarded([&] {
    if (task.forget) task.forget();
    return success();
  });
}

// Behind a failure nothing of it runs, but what it was to end has to end.
void run_line(const Line& line, const std::vector<Task>& tasks, std::vector<Outcome>* outcomes) noexcept {
  bool failed = false;
  for (const std::size_t place : line.places) {
    if (failed) {
      forget(tasks[place]);
      continue;
    }
    Outcome& outcome = (*outcomes)[place];
    outcome = guarded(tasks[place].run);
    failed = !outcome.ok();
    if (failed && !tasks[place].blocking) line.comm->break_with(outcome);
  }
}

// All lines or none: one that has no thread would be waited for by its peers in this process until the
// deadline. Fails, or throws, before any has begun.
Outcome run_lines(const std::vector<Task>& tasks, std::vector<Outcome>* outcomes) {
  outcomes->resize(tasks.size());
  const std::vector<Line> lines = lines_of(tasks);
  StartSignal signal;
  std::vector<Job> jobs(lines.size());  // joined before what they use goes
  Outcome started = guarded([&] {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto line = [&, i] {
        if (signal.wait()) run_line(lines[i], tasks, outcomes);
      };
      if (Outcome o = jobs[i].start(line); !o.ok()) return o;
    }
    return success();
  });
  signal.give(started.ok());
  return started;
}

// With *began false nothing has run, and nothing was forgotten.
Outcome run_tasks(const std::vector<Task>& tasks, bool* began) noexcept {
  std::vector<Outcome> outcomes;
  Outcome started = guarded([&] { return run_lines(tasks, &outcomes); });
  *began = started.ok();
  if (!started.ok()) return started;
  const auto failed =
      std::find_if(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return !o.ok(); });
  return failed != outcomes.end() ? std::move(*failed) : success();
}

Outcome run_later(const Task& task) {
  const auto job = std::make_shared<Job>();
  task.comm->attach(job);
  Outcome o = job->start([task] {
    if (Outcome done = guarded(task.run); !done.ok()) task.comm->break_with(done);
  });
  return o.ok() ? Outcome{ncclInProgress, {}} : o;
}

// The program has its handles by now: what cannot run breaks them.
void run_group(const std::vector<Task>& tasks, const std::vector<Call>& calls) noexcept {
  bool began = false;
  const Outcome ran = run_tasks(tasks, &began);
  if (ran.ok() && !calls.empty()) return launch_later(calls);
  if (ran.ok()) return;
  for (const Task& task : tasks) {
    if (!began) task.comm->break_with(ran);
  }
  for (const Call& call : calls) call.comm->break_with(ran);
}

Outcome run_group_later(const std::vector<Task>& tasks, const std::vector<Call>& calls) {
  const auto job = std::make_shared<Job>();
  for (const Task& task : tasks) task.comm->attach(job);
  for (const Call& call : calls) call.comm->attach(job);
  Outcome o = job->start([tasks, calls] { run_group(tasks, calls); });
  return o.ok() ? Outcome{ncclInProgress, {}} : o;
}

}  // namespace

Outcome run_now(const Task& task) {
  if (task.blocking) return task.run();
  Outcome o = guarded([&] { return run_later(task); });
  if (o.code != ncclInProgress) forget(task);
  return o;
}

Outcome run_all(const std::vector<Task>& tasks) noexcept {
  bool began = false;
  Outcome ran = run_tasks(tasks, &began);
  if (!began) forget_all(tasks);
  return ran;
}

void forget_all(const std::vector<Task>& tasks) noexcept {
  for (const Task& task : tasks) forget(task);
}

Outcome launch_group(const std::vector<Task>& tasks, std::vector<Call> calls, bool blocking) {
  if (tasks.empty()) return launch(std::move(calls));
  if (blocking) {
    if (Outcome o = run_all(tasks); !o.ok()) return o;
    return launch(std::move(calls));
  }
  Outcome o = guarded([&] { return run_group_later(tasks, calls); });
  if (o.code != ncclInProgress) forget_all(tasks);
  return o;
}

}  // namespace stepgate::hostnccl

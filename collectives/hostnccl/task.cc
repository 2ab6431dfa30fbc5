#include "collectives/hostnccl/task.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "collectives/hostnccl/job.h"
#include "collectives/hostnccl/launch.h"

namespace stepgate::hostnccl {
namespace {

Outcome run_guarded(const Task& task) noexcept {
  try {
    return task.run();
  } catch (const std::bad_alloc&) {
    return {ncclSystemError, "out of memory"};
  } catch (const std::exception& error) {
    return {ncclInternalError, error.what()};
  }
}

// The tasks of one communicator; behind a failure nothing of it runs.
struct Line {
  Communicator* comm;
  std::vector<std::size_t> places;
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

void run_line(const Line& line, const std::vector<Task>& tasks, std::vector<Outcome>* outcomes) noexcept {
  for (const std::size_t place : line.places) {
    Outcome& outcome = (*outcomes)[place];
    outcome = run_guarded(tasks[place]);
    if (outcome.ok()) continue;
    if (!tasks[place].blocking) line.comm->break_with(outcome);
    return;
  }
}

Outcome run_lines(const std::vector<Task>& tasks) {
  std::vector<Outcome> outcomes(tasks.size());
  const std::vector<Line> lines = lines_of(tasks);
  std::vector<Job> jobs(lines.size());  // joined before what they use goes
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Outcome o = jobs[i].start([&, i] { run_line(lines[i], tasks, &outcomes); });
    if (!o.ok()) outcomes[lines[i].places.front()] = std::move(o);
  }
  for (const Job& job : jobs) job.wait();
  const auto failed =
      std::find_if(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return !o.ok(); });
  return failed != outcomes.end() ? *failed : success();
}

}  // namespace

Outcome run_now(Task task) {
  if (task.blocking) return task.run();
  const auto comm = task.comm;
  const auto job = std::make_shared<Job>();
  comm->attach(job);
  Outcome o = job->start([task = std::move(task)] {
    if (Outcome done = run_guarded(task); !done.ok()) task.comm->break_with(done);
  });
  return o.ok() ? Outcome{ncclInProgress, {}} : o;
}

Outcome run_all(const std::vector<Task>& tasks) noexcept {
  try {
    return run_lines(tasks);
  } catch (const std::exception& error) {
    return {ncclSystemError, error.what()};
  }
}

void forget_all(const std::vector<Task>& tasks) {
  for (const Task& task : tasks) {
    if (task.forget) task.forget();
  }
}

Outcome launch_group(std::vector<Task> tasks, std::vector<Call> calls, bool blocking) {
  if (tasks.empty()) return launch(std::move(calls));
  if (blocking) {
    if (Outcome o = run_all(tasks); !o.ok()) return o;
    return launch(std::move(calls));
  }
  const auto job = std::make_shared<Job>();
  for (const Task& task : tasks) task.comm->attach(job);
  for (const Call& call : calls) call.comm->attach(job);
  Outcome o = job->start([tasks = std::move(tasks), calls = std::move(calls)] {
    const Outcome ran = run_all(tasks);
    if (ran.ok() && !calls.empty()) return launch_later(calls);
    if (ran.ok()) return;
    for (const Call& call : calls) call.comm->break_with(ran);
  });
  return o.ok() ? Outcome{ncclInProgress, {}} : o;
}

}  // namespace stepgate::hostnccl

// A piece of work in a thread of its own, for communicators whose calls do not block.
//
//   const auto job = std::make_shared<Job>();
//   comm->attach(job);                    // from here on the communicator is in progress
//   Outcome o = job->start([=] { ... });  // it no longer is once the work has returned
//
// Threads: start once, by the thread that made it; done and wait from any but the job's own.
// Lock: its own. Ownership: the work and what it holds go before the job counts as done, so its owners must
// not be among what it holds alone; the last owner joins the thread. The thread takes no signals but faults.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "collectives/hostnccl/outcome.h"

namespace stepgate::hostnccl {

class Job {
 public:
  Job() = default;
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // ncclSystemError where no thread can be had; the job then counts as done. `work` does not throw.
  Outcome start(std::function<void()> work);
  // Counts as done without having been started.
  void skip() { finish(); }
  bool done() const;
  void wait() const;

 private:
  void finish();

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace stepgate::hostnccl

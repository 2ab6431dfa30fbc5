// A communicator: one rank's place in a transport world, its first error and its end; its device, where
// there is one; and the job that works for it, where its calls do not block.
//
//   std::shared_ptr<Communicator> comm;
//   Outcome o = Communicator::create(table, id, rank, size, config, &comm);
//
// Threads: create, start, finalize and destroy belong to one thread at a time, which holds use() (start
// and finish) or takes it itself (finalize, destroy). abort, status, rank and size may be called from any
// thread at any moment, also while another is blocked in here.
// Order of locks: use() before the inner one; the device's before none; none is held while a caller's code
// runs.
// Ownership: shared by the registry of handles and by the calls in progress; the world goes with it. The
// staging is taken away after destroy() by who may call the driver: the last reference may go in a host
// function.
// A communicator of one rank has no world: its collectives are copies and load no transport.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/hostnccl/config.h"
#include "collectives/hostnccl/job.h"
#include "collectives/hostnccl/outcome.h"
#include "collectives/hostnccl/red_ops.h"
#include "collectives/hostnccl/registrations.h"
#include "collectives/hostnccl/request.h"
#include "collectives/hostnccl/staging.h"
#include "collectives/hostnccl/start_operation.h"
#include "collectives/hostnccl/status.h"
#include "collectives/ucx/transport.h"

namespace stepgate::hostnccl {

class Communicator {
 public:
  // Collective over all ranks; blocks until every rank is there or the deadline. `table` may be NULL
  // for one rank. In two steps where another thread is to connect.
  static std::shared_ptr<Communicator> make(const sgt_table* table, int rank, int size, const Config& config);
  Outcome connect(const ncclUniqueId& id);
  static Outcome create(const sgt_table* table, const ncclUniqueId& id, int rank, int size,
                        const Config& config, std::shared_ptr<Communicator>* comm);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // The other way to connect: as one of `members`, ranks of `parent` in the child's order. The caller holds
  // the parent's use(); the parent may be broken or revoked. Where it was whole when the ranks agreed to
  // meet, a member's death that it knows of ends the wait.
  Outcome join(Communicator& parent, const std::vector<int>& members, bool parent_was_whole);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  const Config& config() const noexcept { return config_; }
  const sgt_table* table() const noexcept { return table_; }
  bool blocking() const noexcept { return config_.blocking; }
  std::chrono::microseconds launch_delay() const noexcept {
    return std::chrono::microseconds(config_.launch_delay_us);
  }

  // What an operation would be refused with: the error that broke it, finalized, or success.
  Outcome usable();
  // The same at the call, where a job that is under way is a reason too.
  Outcome ready();
  // The same for calls that only ask: a communicator that is finalized or revoked answers too.
  Outcome answers();
  // Success, ncclInProgress, or the error that broke the communicator.
  Outcome status();
  // Unless it is broken already: `why` from here on, and the peers are told.
  void break_with(const Outcome& why);

  // Ends every operation in flight. Does not wait for them.
  void abort();
  // The same, but the communicator is only closed to operations: it can still be split, shrunk and destroyed.
  // ncclInvalidArgument where it is finalized or revoked already. Does not wait either.
  Outcome begin_revoke();
  bool revoked();
  // The same for a shrink: from here on it is broken, unless it was.
  void end_operations();
  // Until what was ended has ended.
  Outcome come_to_rest();
  // The program finalizes once. ncclInvalidArgument where it has, or the communicator is revoked.
  Outcome begin_finalize();
  void take_back_finalize();  // it did not come to that
  // While it connects: is it to stop? lost_one_of: was it one of these ranks that broke it?
  bool called_off();
  bool called_off_by_abort();
  bool lost_one_of(const std::vector<int>& ranks);
  bool learns_of_a_loss(const std::vector<int>& ranks);  // within two seconds
  // Neither broken nor revoked, also while a job works for it.
  bool whole();
  // Collective unless broken: waits for what lies on streams, then until every rank has come here. Safe to
  // repeat.
  Outcome finalize();
  // Closes the world, after finalize unless broken. Later calls are refused.
  Outcome destroy();

  // In progress from here until the job is done.
  void attach(std::shared_ptr<Job> job);
  void wait_for_job();

  // Keeps the device whose context is current in this thread, if one is.
  Outcome adopt_device(const Cuda& cuda);
  Outcome adopt_device_of(const Communicator& parent);
  // 0 where there is none.
  int device_ordinal() const;
  // Made at first use; `context` counts where none was current at creation.
  Outcome staging(const Cuda& cuda, cuda::Context context, std::shared_ptr<Staging>* staging);
  std::shared_ptr<Staging> take_staging();
  // Gathers `count` numbers of each rank, by rank. use() is held by the caller.
  Outcome exchange(const int* mine, int count, int* all);

  // Until nothing of it lies on a stream any more; ncclSystemError at the deadline.
  Outcome wait_until_idle();

  // The operators that the program made on it. Any thread.
  RedOps& red_ops() noexcept { return red_ops_; }
  Registrations& registrations() noexcept { return registrations_; }

  std::mutex& use() noexcept { return use_; }
  // The five below: use() is held by the caller.
  Outcome start(const Request& request, Operation* operation);
  // start, wait and finish in one; an operation that could not start is named.
  Outcome run(const Request& request);
  // ncclInProgress until the operation is done; never sleeps.
  Outcome progress(const Operation& operation);
  Outcome wait(const Operation& operation);
  void finish(Operation* operation) noexcept;

 private:
  Communicator(const sgt_table* table, int rank, int size, Config config);

  static sgt_options options_of(const Config& config);
  Outcome adopt(sgt_world* world);
  Outcome barrier();
  Outcome translate(sgt_status status, const sgt_error& error);
  Outcome refused_locked() const;
  void look_locked();
  bool in_progress_locked();
  Outcome record(Outcome outcome, int culprit);
  sgt_world* take_world();

  const sgt_table* const table_;
  const int rank_;
  const int size_;
  const Config config_;
  RedOps red_ops_;
  Registrations registrations_;

  std::mutex use_;  // the transport wants one thread at a time in a world

  mutable std::mutex inner_;  // guards what follows; held for moments only
  sgt_world* world_ = nullptr;
  Outcome broken_;
  // Every call does not have to take the lock: true where the last that did found no reason to refuse one,
  // and nothing that may be one has happened since. Written under the lock.
  std::atomic<bool> sound_{false};
  std::shared_ptr<Job> job_;
  int culprit_ = -1;  // the rank that broke it, where that is known
  bool finalize_called_ = false;
  bool finalized_ = false;
  bool revoked_ = false;
  bool destroyed_ = false;
  bool aborted_ = false;

  mutable std::mutex device_;  // guards what follows
  cuda::Context context_ = nullptr;
  std::shared_ptr<Staging> staging_;
  std::atomic<bool> has_staging_{false};  // read without the lock
};

}  // namespace stepgate::hostnccl

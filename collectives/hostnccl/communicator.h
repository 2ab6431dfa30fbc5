// A communicator: one rank's place in a transport world, its first error and its end.
//
//   std::shared_ptr<Communicator> comm;
//   Outcome o = Communicator::create(table, id, rank, size, config, &comm);
//
// Threads: create, start, finalize and destroy belong to one thread at a time, which holds use() (start
// and finish) or takes it itself (finalize, destroy). abort, status, rank and size may be called from any
// thread at any moment, also while another is blocked in here.
// Order of locks: use() before the inner one; none is held while a caller's code runs.
// Ownership: shared by the registry of handles and by the calls in progress; the world goes with it.
// A communicator of one rank has no world: its collectives are copies and load no transport.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/hostnccl/config.h"
#include "collectives/hostnccl/outcome.h"
#include "collectives/hostnccl/request.h"
#include "collectives/ucx/transport.h"

namespace stepgate::hostnccl {

// One started collective. Released by Communicator::finish, or with the world.
struct Operation {
  sgt_op* op = nullptr;            // NULL: already complete
  std::vector<std::byte> scratch;  // receives what a rank other than the root of a reduce throws away
};

class Communicator {
 public:
  // Collective over all ranks; blocks until every rank is there or the deadline. `table` may be NULL
  // for one rank.
  static Outcome create(const sgt_table* table, const ncclUniqueId& id, int rank, int size,
                        const Config& config, std::shared_ptr<Communicator>* comm);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  // What an operation would be refused with: the error that broke it, finalized, or success.
  Outcome usable();
  // Success, or the error that broke the communicator.
  Outcome status();

  // Ends every operation in flight. Does not wait for them.
  void abort();
  // Collective unless broken: waits until every rank has come here. Safe to repeat.
  Outcome finalize();
  // Closes the world, after finalize unless broken. Later calls are refused.
  Outcome destroy();

  std::mutex& use() noexcept { return use_; }
  // The four below: use() is held by the caller.
  Outcome start(const Request& request, Operation* operation);
  // ncclInProgress until the operation is done; never sleeps.
  Outcome progress(const Operation& operation);
  Outcome wait(const Operation& operation);
  void finish(Operation* operation) noexcept;

 private:
  Communicator(const sgt_table* table, sgt_world* world, int rank, int size);

  sgt_status launch(const Request& request, Operation* operation, sgt_error* error);
  Outcome barrier();
  Outcome translate(sgt_status status, const sgt_error& error);
  Outcome refused_locked() const;
  Outcome record(Outcome outcome);
  sgt_world* take_world();

  const sgt_table* const table_;
  const int rank_;
  const int size_;

  std::mutex use_;  // the transport wants one thread at a time in a world

  mutable std::mutex inner_;  // guards what follows; held for moments only
  sgt_world* world_;
  Outcome broken_;
  bool finalized_ = false;
  bool destroyed_ = false;
  bool aborted_ = false;
};

// The transport's status and sentence as NCCL's code and ours. `aborted_here`: this rank asked for it.
Outcome translate_status(sgt_status status, const sgt_error& error, bool aborted_here);

}  // namespace stepgate::hostnccl

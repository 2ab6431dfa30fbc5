// What NCCL's C ABI forces a library to keep for a whole process: which handles are alive, which unique
// ids are spent, the transport, and each thread's group and last error. NCCL's calls carry no context
// object, so this state has nowhere else to live; it is kept in this one class and everything behind it
// takes what it needs as arguments.
//
// Threads: every function from any thread; one short lock, never held across a transport call.
// fork: a child process inherits handles whose worlds belong to its parent. Every function that could
// reach them refuses in a child, by its mark and before any lock (another thread may have held one at fork).
// Lifetime: created at first use and never destroyed, so that threads that still communicate while the
// process exits find it whole.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "collectives/hostnccl/communicator.h"
#include "collectives/hostnccl/cuda_driver.h"
#include "collectives/hostnccl/group.h"
#include "collectives/hostnccl/host_memory.h"
#include "collectives/hostnccl/outcome.h"
#include "collectives/hostnccl/process_mark.h"
#include "collectives/hostnccl/transport_loader.h"

// A handle is an address that is never used twice, so a stale one is always recognised. It is looked up,
// never read: a foreign pointer cannot make the lookup crash. The few bytes stay until exit.
struct ncclComm {
  std::uint64_t serial;
};

namespace stepgate::hostnccl {

class Library {
 public:
  static Library& of_this_process();

  explicit Library(std::vector<std::string> transport_candidates);

  Outcome unique_id(ncclUniqueId* id);
  // A communicator that has yet to connect over the id: its arguments are checked.
  Outcome prepare(int size, int rank, bool blocking, bool with_device, std::shared_ptr<Communicator>* comm);
  // An id serves one communicator: ncclInvalidUsage for the rank that uses it again.
  Outcome spend(const ncclUniqueId& id, int rank);
  // Ids that are not needed: their listeners go.
  void close_id(const ncclUniqueId& id);
  ncclComm_t enlist(std::shared_ptr<Communicator> comm);
  Outcome find(ncclComm_t handle, std::shared_ptr<Communicator>* comm) const;
  // Success in the process that created the library, ncclInvalidUsage in a forked child.
  Outcome check_process() const;
  // The handle is dead from here on. False: it was not alive.
  bool retire(ncclComm_t handle);
  // The driver that the process has loaded; NULL: none so far.
  const Cuda* cuda() { return cuda_loader_.find(); }
  // The transport, loaded at first need, also where one rank alone would need none.
  Outcome load_transport(const sgt_table** table) { return loader_.load(table); }
  // Numbers of operators are given out once in a process: one of another communicator is unknown.
  int next_red_op() noexcept { return next_red_op_++; }
  // ncclMemAlloc and ncclMemFree.
  Outcome allocate(void** pointer, std::size_t bytes);
  Outcome free(void* pointer);
  // Frees what a destroyed communicator had on its device. What still lies on streams after two seconds is
  // freed by a later call, once it has ended.
  void bury(std::shared_ptr<Staging> staging);

 private:
  using IdAndRank = std::pair<std::array<char, NCCL_UNIQUE_ID_BYTES>, int>;

  Outcome transport(int size, const sgt_table** table);
  std::vector<std::shared_ptr<Staging>> take_ended();

  const ProcessMark mark_;
  TransportLoader loader_;
  CudaLoader cuda_loader_;
  std::atomic<int> next_red_op_{ncclNumOps};
  HostMemory memory_;
  mutable std::mutex mutex_;  // guards what follows
  std::deque<ncclComm> handles_;
  std::unordered_map<const ncclComm*, std::shared_ptr<Communicator>> alive_;
  std::atomic<std::uint64_t> retired_{0};  // handles so far: what a thread remembers from before may be dead
  std::set<IdAndRank> spent_;
  std::vector<std::shared_ptr<Staging>> buried_;
};

// Per thread, as NCCL keeps them.
Group& group_of_this_thread();
const char* last_error_of_this_thread() noexcept;
void set_last_error_of_this_thread(const char* message) noexcept;

}  // namespace stepgate::hostnccl

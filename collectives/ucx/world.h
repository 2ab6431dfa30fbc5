// One rank's membership in a world: its control channel, its fabric, its operations in flight, and the
// one failure that ended it.
//
// Thread: the caller's one thread at a time, but for abort(), status() and what they may do, which any
// thread may call; mutex_ serialises those with the slices of work and is never held while sleeping.
// Order: collectives start in the same order on all ranks. Ownership: the world owns its operations;
// it must outlive every handle to one. In a forked child nothing here may be called (table.cc sees to it).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/ucx/algorithms.h"
#include "collectives/ucx/control.h"
#include "collectives/ucx/door.h"
#include "collectives/ucx/fabric.h"
#include "collectives/ucx/letters.h"
#include "collectives/ucx/mailbox.h"
#include "collectives/ucx/operation.h"
#include "collectives/ucx/peer_memory.h"

namespace stepgate::transport {

struct Options {
  double timeout_seconds = 600;
  std::string transports = "auto";
  std::string interface;            // empty: by the rendezvous address
  std::function<bool()> cancelled;  // asked while the world is created
  double arrive_seconds = 0;        // 0: the timeout
};

class World {
 public:
  // Collective; returns when all ranks have arrived and a first barrier has passed over the fabric.
  World(const IdLayout& id, int rank, int size, const Options& options);
  // Waits until every rank does the same (unless broken), then closes. See destroy order in the .cc.
  ~World();

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }

  // Known from the creation on, whatever becomes of the world. Any thread.
  const Door& door() const { return door_; }
  const IdLayout& door_of(int rank) const { return doors_[static_cast<size_t>(rank)]; }

  Operation* allreduce(const void* send, void* recv, size_t count, sgt_type type, sgt_reduction reduction);
  // The same, done when it returns. A short one with nothing else under way needs no operation.
  sgt_status allreduce_wait(const void* send, void* recv, size_t count, sgt_type type,
                            sgt_reduction reduction, Failure* failure);
  Operation* reduce_scatter(const void* send, void* recv, size_t count, sgt_type type,
                            sgt_reduction reduction);
  Operation* allgather(const void* send, void* recv, size_t count, sgt_type type);
  Operation* broadcast(const void* send, void* recv, size_t count, sgt_type type, int root);
  Operation* barrier();
  // recv counts on the root only, for gather too; scatter's send likewise.
  Operation* reduce(const void* send, void* recv, size_t count, sgt_type type, sgt_reduction reduction,
                    int root);
  Operation* gather(const void* send, void* recv, size_t count, sgt_type type, int root);
  Operation* scatter(const void* send, void* recv, size_t count, sgt_type type, int root);
  Operation* alltoall(const void* send, void* recv, size_t count, sgt_type type);
  // To and from another rank. Each direction of each pair counts for itself.
  Operation* send(const void* data, size_t bytes, int peer);
  Operation* receive(void* data, size_t bytes, int peer);

  sgt_status progress(Operation& operation, Failure* failure);
  sgt_status wait(Operation& operation, Failure* failure);
  void release(Operation* operation);

  sgt_status status(Failure* failure);
  void abort();

 private:
  struct Pending {  // ours if the coordinator's verdict does not come first
    Failure failure;
    Time until;
    bool tell;  // the coordinator does not know of it yet
  };

  void open_fabric(const IdLayout& id, const Options& options);
  void introduce(const std::vector<std::string>& blobs, bool one_host);
  void warm_up();
  void agree_on_shortcuts();
  void finish(Operation* proof);  // throws what went wrong
  Operation* begin(const Operation::Plan& plan);
  // mutex_ is held.
  Operation* begin_with(Numbering numbering, const Operation::Plan& plan);
  // mutex_ is held.
  Ticket take_ticket() { return {mailbox_->take_ticket(), sequence_++}; }
  bool mails(size_t bytes) const { return mailbox_ != nullptr && bytes > 0 && bytes <= Mailbox::kRoom; }
  Operation* begin_letter(const Reducer& reducer, Ticket ticket, const void* send, void* recv, size_t count);
  bool exchange_letters(const Reducer& reducer, Ticket ticket, const void* send, void* recv, size_t count);
  bool letters_come();
  bool may_sleep();
  void require_sound();
  bool broken() const { return status_.load(std::memory_order_acquire) != SGT_OK; }
  sgt_status status_of(const Operation& operation, Failure* failure);

  bool slice(bool with_control = true);
  void collect(Operation& operation);
  void bury(Operation* operation);
  void attend(Time now);
  void listen();
  void lost_coordinator();
  void check_deadlines(Time now);
  bool moves(Operation& operation);
  void tell_that_it_moves(const Operation& operation);
  void suspect(Failure failure);
  void fail(Failure failure, bool tell);
  void end_messages();
  void abandon();
  void close();
  int waits_for() const;
  void sleep();
  void leave();
  void flush();
  template <typename Condition>
  void work_until(Condition reached);

  const Place place_;
  const double timeout_seconds_;
  bool may_spin_ = false;
  bool reads_peers_ = false;   // all ranks can read each other's memory
  int coordinator_rank_ = -1;  // that shares its process; -1: none does

  std::mutex mutex_;
  Fd wake_;
  ScratchPool scratch_;
  FramePool frames_;
  PeerMemory memory_;
  std::unique_ptr<Mailbox> mailbox_;  // NULL: the ranks share none
  Control control_;
  Door door_;
  std::vector<IdLayout> doors_;  // by rank
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Operation> spare_;                    // the last that was released, for the next
  std::vector<std::unique_ptr<Operation>> operations_;  // held by the caller
  std::vector<Operation*> active_;
  std::vector<std::unique_ptr<Operation>> graveyard_;  // UCX may still touch their buffers
  uint32_t sequence_ = 0;                              // of the collectives
  std::vector<uint32_t> sent_to_;                      // messages between two ranks, by peer
  std::vector<uint32_t> received_from_;
  std::optional<Pending> pending_;
  int unattended_ = 0;  // slices
  Time attended_at_{};
  Time attended_since_{};
  bool closing_ = false;
  bool all_left_ = false;
  bool at_rest_ = true;  // no message of an ended operation is known to UCX

  std::atomic<bool> abort_requested_{false};
  std::atomic<sgt_status> status_{SGT_OK};
  std::mutex failure_mutex_;
  Failure failure_;  // under failure_mutex_
};

}  // namespace stepgate::transport

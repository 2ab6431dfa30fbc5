// A transport in this process that does what a test tells it: statuses are scripted, calls are logged,
// no byte moves. The unique id carries the object's address, so there is no global state.
//
//   FakeTransport fake;
//   fake.start_answers = {SGT_OK, SGT_PEER_DEAD};
//   Communicator::create(fake.table(), fake.id(), 0, 2, Config{}, &comm);
//
// Threads: script before the first call; the log and abort may be used from any thread.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"
#include "collectives/ucx/transport.h"

namespace stepgate::hostnccl::test {

class FakeTransport {
 public:
  // Answers, used up from the front; an empty list says SGT_OK.
  sgt_status create_answer = SGT_OK;
  std::deque<sgt_status> start_answers;
  std::deque<sgt_status> final_answers;  // of operations, in order of their start
  int rounds_in_progress = 1;            // SGT_IN_PROGRESS this often before the final answer
  bool wait_blocks_until_abort = false;
  int culprit = -1;
  std::string message;
  std::atomic<sgt_status> world_answer{SGT_OK};

  const sgt_table* table() const;
  ncclUniqueId id();
  std::vector<std::string> log() const;
  bool reached(const std::string& entry) const;
  int ops_held() const { return ops_held_; }

  // For the table's functions.
  void note(const std::string& entry);
  sgt_status answer(sgt_status status, sgt_error* error) const;
  sgt_status take_start();
  sgt_status take_final();
  std::atomic<bool> aborted{false};
  std::atomic<int> ops_held_{0};

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> log_;
};

}  // namespace stepgate::hostnccl::test

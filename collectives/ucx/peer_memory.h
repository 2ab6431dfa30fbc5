// The memory of the other ranks on this host, read where it lies (process_vm_readv): a long vector is copied
// once, by the rank that needs it. UCX 1.13 has this too, but not together with reports of dead peers.
//
// A rank lends its buffers for an operation. One that gives up takes its word back before its caller has the
// buffers again, and a reader asks for the word behind the data, in one call: what it read is good if the
// word still stood.
//
// Thread: read() and withdraw() one at a time (the world's lock); others' processes read the word at any
// moment. Ownership: the caller's buffers stay until every reader has said that it is done.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepgate::transport {

class PeerMemory {
 public:
  struct Card {
    int64_t process = 0;
    uint64_t address = 0;  // of the word
    uint64_t word = 0;
  };

  PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  Card card() const;
  // By rank. False: at least one cannot be read, by the kernel's rules for debuggers for example.
  bool introduce(std::vector<Card> cards);
  // Copies from a buffer that the rank lends. 0: what came is good. kTakenBack: it is not, the rank lends no
  // longer. Otherwise errno, of which ESRCH says that the rank's process is gone.
  static constexpr int kTakenBack = -1;
  int read(int rank, uint64_t address, void* to, size_t bytes) const;
  // The answers may change while the job runs: a process may drop its rights, and memory of a device, mapped
  // into this process, has no pages that others could read. All ranks must act on all ranks' answers.
  bool reads_all() const;
  static bool lends(const void* buffer, size_t bytes);  // not 0 bytes
  // What this rank has lent is lent no longer.
  void withdraw();

 private:
  const uint64_t secret_;
  std::atomic<uint64_t> word_;
  std::vector<Card> cards_;
};

}  // namespace stepgate::transport

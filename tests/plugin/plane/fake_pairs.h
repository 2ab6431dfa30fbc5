// FakePairs: a transport for worlds of two in this process. Ends that name the same id exchange their
// frames; a test breaks one, holds it up or makes it refuse to open.
//
// The C table has no place for a context, so one FakePairs is alive at a time. Threads: any, one lock.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/ucx/transport.h"

namespace stepgate::plane::test {

class FakePairs {
 public:
  FakePairs();
  ~FakePairs();
  FakePairs(const FakePairs&) = delete;
  FakePairs& operator=(const FakePairs&) = delete;

  const sgt_table& table() const;
  sgt_unique_id fresh_id();

  // Every turn of this id fails from now on, with the sentence.
  void break_pair(const sgt_unique_id& id, const std::string& why);
  void break_all(const std::string& why);
  void refuse_to_open(bool on);            // world_create fails
  void open_only_when_cancelled(bool on);  // world_create waits until it is called off
  void open_slowly(double seconds);        // each world_create takes so long
  void close_slowly(double seconds);       // each world_destroy takes so long
  int listeners() const;                   // ids handed out
  int closed() const;                      // of these, by their owner
  int worlds() const;                      // alive now
  sgt_unique_id newest() const;            // of a listener
  std::vector<double> deadlines() const;   // asked for by each world_create, in order
  std::vector<std::string> transports() const;

  // ---- for the table's functions
  struct Pair {
    std::vector<unsigned char> posted[2];
    std::uint64_t turns[2] = {0, 0};
    bool broken = false;
    std::string why;
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Pair> pairs_;
  std::uint64_t last_id_ = 0;
  int worlds_ = 0;
  int closed_ = 0;
  bool refuse_ = false;
  bool wait_ = false;
  double opening_takes_ = 0;
  double closing_takes_ = 0;
  std::vector<double> deadlines_;
  std::vector<std::string> transports_;
};

}  // namespace stepgate::plane::test

// What the tests of communicators' lives share: a sum that proves that one works, and the end of many.
//
//   EXPECT_EQ(sum_over(comm, rank), 0 + 1 + 2);
//   end_all(comms);                    // each in a thread: destroying waits for the others
//
// Threads: any; see ranks.h. Ownership: the communicators stay the caller's until end_all.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/nccl_abi/nccl_structs.h"
#include "tests/collectives/hostnccl/ranks.h"

namespace stepgate::hostnccl::test {

// What a call that fails must leave in place.
inline ncclComm_t const kUntouched = reinterpret_cast<ncclComm_t>(8);

inline std::size_t at(int rank) {
  return static_cast<std::size_t>(rank);
}

// -1 where the sum fails. Large enough for a second algorithm of the transport.
inline int sum_over(ncclComm_t comm, int value) {
  std::vector<int> data(20'000, value);
  if (ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, comm, nullptr) !=
      ncclSuccess) {
    return -1;
  }
  const bool same = std::all_of(data.begin(), data.end(), [&](int x) { return x == data[0]; });
  return same ? data[0] : -2;
}

inline int rank_of(ncclComm_t comm) {
  int rank = -1;
  EXPECT_EQ(ncclCommUserRank(comm, &rank), ncclSuccess) << failure();
  return rank;
}

inline int size_of(ncclComm_t comm) {
  int size = -1;
  EXPECT_EQ(ncclCommCount(comm, &size), ncclSuccess) << failure();
  return size;
}

inline ncclResult_t async_state(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess) << failure();
  return state;
}

// What the last call came to, where calls do not block.
inline ncclResult_t settled(ncclComm_t comm) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(90);
  while (async_state(comm) == ncclInProgress && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return async_state(comm);
}

inline ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

inline void end_all(const std::vector<ncclComm_t>& comms) {
  in_threads(static_cast<int>(comms.size()),
             [&](int i) { EXPECT_EQ(ncclCommDestroy(comms[at(i)]), ncclSuccess) << failure(); });
}

inline std::vector<ncclComm_t> make_non_blocking_clique(int size) {
  std::vector<ncclComm_t> comms(at(size), nullptr);
  const ncclUniqueId id = new_id();
  ncclConfig_t config = non_blocking();
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_EQ(ncclCommInitRankConfig(&comms[at(rank)], size, id, rank, &config), ncclInProgress) << failure();
  }
  for (ncclComm_t comm : comms) EXPECT_EQ(settled(comm), ncclSuccess) << failure();
  return comms;
}

// For the communicators that are made meanwhile; no other thread may read the environment.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Environment() {
    if (before_.has_value()) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace stepgate::hostnccl::test

// N ranks of one communicator as threads of a test, over the built libnccl.so.2.
//
//   run_ranks(4, [](int rank, ncclComm_t comm) { ASSERT_EQ(ncclAllReduce(...), ncclSuccess); });
//
// Threads: the body runs once per rank, all at the same time; EXPECT and ASSERT work inside (an ASSERT
// leaves that rank's body only). Communicators are created before and destroyed after it. Every wait
// ends at hostnccl's deadline, which CMake sets for these tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"

namespace stepgate::hostnccl::test {

inline std::string failure() {
  return ncclGetLastError(nullptr);
}

inline ncclUniqueId new_id() {
  ncclUniqueId id = {};
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess) << failure();
  return id;
}

inline void in_threads(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

// The communicators of one clique, one per rank. The caller destroys or aborts them.
inline std::vector<ncclComm_t> make_clique(int size) {
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(size), nullptr);
  const ncclUniqueId id = new_id();
  in_threads(size, [&](int rank) {
    EXPECT_EQ(ncclCommInitRank(&comms[static_cast<std::size_t>(rank)], size, id, rank), ncclSuccess)
        << failure();
  });
  return comms;
}

inline void run_ranks(int size, const std::function<void(int, ncclComm_t)>& body) {
  const std::vector<ncclComm_t> comms = make_clique(size);
  for (ncclComm_t comm : comms) ASSERT_NE(comm, nullptr);
  in_threads(size, [&](int rank) {
    ncclComm_t comm = comms[static_cast<std::size_t>(rank)];
    body(rank, comm);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << failure();
  });
}

}  // namespace stepgate::hostnccl::test

// N ranks inside one test: each is a thread with its own world over real transports, and the test's body
// is written once, per rank. A failure in one rank aborts the world, so that the others end too.
//
//   run_ranks(4, {.transports = "tcp"}, [](Rank& rank) { rank.barrier(); });
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "collectives/ucx/table.h"

namespace stepgate::transport::testing {

inline const sgt_table& transport() {
  return *table(SGT_ABI_VERSION);
}

struct Setting {
  const char* transports = "auto";
  double timeout_seconds = 60;
};

inline sgt_options options_of(const Setting& setting) {
  return {sizeof(sgt_options), setting.timeout_seconds, setting.transports, nullptr, nullptr, nullptr};
}

sgt_unique_id new_id();
std::string to_hex(const sgt_unique_id& id);

// What a rank's calls came to.
struct Outcome {
  sgt_status status = SGT_OK;
  sgt_error error{};
};

struct Rank {
  int rank = 0;
  int size = 0;
  sgt_world* world = nullptr;

  // Each starts the operation, waits for it and releases it.
  Outcome allreduce(const void* send, void* recv, size_t count, sgt_type type, sgt_reduction reduction);
  Outcome allreduce_wait(const void* send, void* recv, size_t count, sgt_type type, sgt_reduction reduction);
  Outcome reduce_scatter(const void* send, void* recv, size_t count, sgt_type type, sgt_reduction reduction);
  Outcome allgather(const void* send, void* recv, size_t count, sgt_type type);
  Outcome broadcast(const void* send, void* recv, size_t count, sgt_type type, int root);
  Outcome barrier();
  Outcome reduce(const void* send, void* recv, size_t count, sgt_type type, sgt_reduction reduction,
                 int root);
  Outcome gather(const void* send, void* recv, size_t count, sgt_type type, int root);
  Outcome scatter(const void* send, void* recv, size_t count, sgt_type type, int root);
  Outcome alltoall(const void* send, void* recv, size_t count, sgt_type type);
  Outcome send(const void* data, size_t count, sgt_type type, int peer);
  Outcome recv(void* data, size_t count, sgt_type type, int peer);
};

Outcome create(const sgt_unique_id& id, int rank, int size, const Setting& setting, sgt_world** world);
// Of an operation that was started with `status`.
Outcome finish(sgt_status status, sgt_op* op, const sgt_error& error);

void run_ranks(int size, const Setting& setting, const std::function<void(Rank&)>& body);
// N threads without worlds.
void run_threads(int count, const std::function<void(int)>& body);

}  // namespace stepgate::transport::testing

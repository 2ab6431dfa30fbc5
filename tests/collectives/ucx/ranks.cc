#include "tests/collectives/ucx/ranks.h"

#include <cstdio>
#include <thread>
#include <vector>

namespace stepgate::transport::testing {

sgt_unique_id new_id() {
  sgt_unique_id id{};
  sgt_error error{};
  EXPECT_EQ(transport().unique_id(&id, &error), SGT_OK) << error.message;
  return id;
}

std::string to_hex(const sgt_unique_id& id) {
  std::string hex;
  for (const unsigned char byte : id.bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    hex += digits;
  }
  return hex;
}

Outcome finish(sgt_status status, sgt_op* op, const sgt_error& error) {
  Outcome outcome{status, error};
  if (status != SGT_OK) return outcome;
  outcome.status = transport().op_wait(op, &outcome.error);
  transport().op_release(op);
  return outcome;
}

Outcome Rank::allreduce(const void* send, void* recv, size_t count, sgt_type type, sgt_reduction reduction) {
  sgt_op* op = nullptr;
  sgt_error error{};
  const sgt_status status = transport().allreduce(world, send, recv, count, type, reduction, &op, &error);
  return finish(status, op, error);
}

Outcome Rank::allreduce_wait(const void* send, void* recv, size_t count, sgt_type type,
                             sgt_reduction reduction) {
  Outcome outcome;
  outcome.status = transport().allreduce_wait(world, send, recv, count, type, reduction, &outcome.error);
  return outcome;
}

Outcome Rank::reduce_scatter(const void* send, void* recv, size_t count, sgt_type type,
                             sgt_reduction reduction) {
  sgt_op* op = nullptr;
  sgt_error error{};
  const sgt_status status =
      transport().reduce_scatter(world, send, recv, count, type, reduction, &op, &error);
  return finish(status, op, error);
}

Outcome Rank::allgather(const void* send, void* recv, size_t count, sgt_type type) {
  sgt_op* op = nullptr;
  sgt_error error{};
  const sgt_status status = transport().allgather(world, send, recv, count, type, &op, &error);
  return finish(status, op, error);
}

Outcome Rank::broadcast(const void* send, void* recv, size_t count, sgt_type type, int root) {
  sgt_op* op = nullptr;
  sgt_error error{};
  const sgt_status status = transport().broadcast(world, send, recv, count, type, root, &op, &error);
  return finish(status, op, error);
}

Outcome Rank::barrier() {
  sgt_op* op = nullptr;
  sgt_error error{};
  const sgt_status status = transport().barrier(world, &op, &error);
  return finish(status, op, error);
}

Outcome Rank::reduce(const void* send, void* recv, size_t count, sgt_type type, sgt_reduction reduction,
                     int root) {
  sgt_op* op = nullptr;
  sgt_error error{};
  const sgt_status status = transport().reduce(world, send, recv, count, type, reduction, root, &op, &error);
  return finish(status, op, error);
}

Outcome Rank::gather(const void* send, void* recv, size_t count, sgt_type type, int root) {
  sgt_op* op = nullptr;
  sgt_error error{};
  const sgt_status status = transport().gather(world, send, recv, count, type, root, &op, &error);
  return finish(status, op, error);
}

Outcome Rank::scatter(const void* send, void* recv, size_t count, sgt_type type, int root) {
  sgt_op* op = nullptr;
  sgt_error error{};
  const sgt_status status = transport().scatter(world, send, recv, count, type, root, &op, &error);
  return finish(status, op, error);
}

Outcome Rank::alltoall(const void* send, void* recv, size_t count, sgt_type type) {
  sgt_op* op = nullptr;
  sgt_error error{};
  const sgt_status status = transport().alltoall(world, send, recv, count, type, &op, &error);
  return finish(status, op, error);
}

Outcome Rank::send(const void* data, size_t count, sgt_type type, int peer) {
  sgt_op* op = nullptr;
  sgt_error error{};
  const sgt_status status = transport().send(world, data, count, type, peer, &op, &error);
  return finish(status, op, error);
}

Outcome Rank::recv(void* data, size_t count, sgt_type type, int peer) {
  sgt_op* op = nullptr;
  sgt_error error{};
  const sgt_status status = transport().recv(world, data, count, type, peer, &op, &error);
  return finish(status, op, error);
}

Outcome create(const sgt_unique_id& id, int rank, int size, const Setting& setting, sgt_world** world) {
  const sgt_options options = options_of(setting);
  Outcome outcome;
  outcome.status = transport().world_create(&id, rank, size, &options, world, &outcome.error);
  return outcome;
}

void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

void run_ranks(int size, const Setting& setting, const std::function<void(Rank&)>& body) {
  const sgt_unique_id id = new_id();
  run_threads(size, [&](int number) {
    Rank rank{number, size};
    const Outcome made = create(id, number, size, setting, &rank.world);
    ASSERT_EQ(made.status, SGT_OK) << "rank " << number << ": " << made.error.message;
    body(rank);
    if (::testing::Test::HasFatalFailure()) transport().world_abort(rank.world);
    transport().world_destroy(rank.world);
  });
}

}  // namespace stepgate::transport::testing

#include "tests/collectives/hostnccl/fake_transport.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

using stepgate::hostnccl::test::FakeTransport;

struct sgt_world {
  FakeTransport* fake;
  int rank;
  int size;
};

struct sgt_op {
  FakeTransport* fake;
  int rounds_left;
  sgt_status final_answer;
};

namespace stepgate::hostnccl::test {
namespace {

sgt_status world_create(const sgt_unique_id* id, int rank, int size, const sgt_options* options,
                        sgt_world** world, sgt_error* error) {
  FakeTransport* fake = nullptr;
  std::memcpy(&fake, id->bytes, sizeof fake);
  char entry[128];
  std::snprintf(entry, sizeof entry, "create %d/%d %s %g", rank, size, options->transports,
                options->timeout_seconds);
  fake->note(entry);
  if (fake->create_answer != SGT_OK) return fake->answer(fake->create_answer, error);
  *world = new sgt_world{fake, rank, size};
  return SGT_OK;
}

sgt_status unique_id(sgt_unique_id*, sgt_error* error) {
  error->culprit = -1;
  std::strcpy(error->message, "a fake has no listener");
  return error->status = SGT_SYSTEM;
}

int world_rank(const sgt_world* world) {
  return world->rank;
}
int world_size(const sgt_world* world) {
  return world->size;
}

sgt_status world_status(const sgt_world* world, sgt_error* error) {
  return world->fake->answer(world->fake->world_answer, error);
}

void world_abort(sgt_world* world) {
  world->fake->note("abort");
  world->fake->aborted = true;
}

void world_destroy(sgt_world* world) {
  world->fake->note("destroy");
  delete world;
}

sgt_status start(sgt_world* world, const std::string& entry, sgt_op** op, sgt_error* error) {
  FakeTransport* fake = world->fake;
  fake->note(entry);
  const sgt_status status = fake->take_start();
  if (status != SGT_OK) return fake->answer(status, error);
  *op = new sgt_op{fake, fake->rounds_in_progress, fake->take_final()};
  ++fake->ops_held_;
  return SGT_OK;
}

sgt_status allreduce(sgt_world* w, const void*, void*, size_t n, sgt_type, sgt_reduction, sgt_op** op,
                     sgt_error* e) {
  return start(w, "allreduce " + std::to_string(n), op, e);
}
sgt_status reduce_scatter(sgt_world* w, const void*, void*, size_t n, sgt_type, sgt_reduction, sgt_op** op,
                          sgt_error* e) {
  return start(w, "reduce_scatter " + std::to_string(n), op, e);
}
sgt_status allgather(sgt_world* w, const void*, void*, size_t n, sgt_type, sgt_op** op, sgt_error* e) {
  return start(w, "allgather " + std::to_string(n), op, e);
}
sgt_status broadcast(sgt_world* w, const void* send, void* recv, size_t n, sgt_type, int root, sgt_op** op,
                     sgt_error* e) {
  const char* place = send == recv ? " in place" : "";
  return start(w, "broadcast " + std::to_string(n) + " from " + std::to_string(root) + place, op, e);
}
sgt_status barrier(sgt_world* w, sgt_op** op, sgt_error* e) {
  return start(w, "barrier", op, e);
}

sgt_status reduce(sgt_world* w, const void*, void*, size_t n, sgt_type, sgt_reduction, int root, sgt_op** op,
                  sgt_error* e) {
  return start(w, "reduce " + std::to_string(n) + " to " + std::to_string(root), op, e);
}
sgt_status send(sgt_world* w, const void*, size_t n, sgt_type, int peer, sgt_op** op, sgt_error* e) {
  return start(w, "send " + std::to_string(n) + " to " + std::to_string(peer), op, e);
}
sgt_status recv(sgt_world* w, void*, size_t n, sgt_type, int peer, sgt_op** op, sgt_error* e) {
  return start(w, "recv " + std::to_string(n) + " from " + std::to_string(peer), op, e);
}

sgt_status op_progress(sgt_op* op, sgt_error* error) {
  if (op->fake->aborted) return op->fake->answer(SGT_ABORTED, error);
  if (op->fake->wait_blocks_until_abort || op->rounds_left-- > 0) return SGT_IN_PROGRESS;
  return op->fake->answer(op->final_answer, error);
}

sgt_status op_wait(sgt_op* op, sgt_error* error) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  op->fake->note("wait");
  for (;;) {
    const sgt_status status = op_progress(op, error);
    if (status != SGT_IN_PROGRESS) return status;
    if (std::chrono::steady_clock::now() > deadline) return op->fake->answer(SGT_TIMEOUT, error);
    std::this_thread::yield();
  }
}

void op_release(sgt_op* op) {
  --op->fake->ops_held_;
  delete op;
}

sgt_status allreduce_wait(sgt_world* w, const void* in, void* out, size_t n, sgt_type t, sgt_reduction r,
                          sgt_error* e) {
  sgt_op* op = nullptr;
  if (const sgt_status status = allreduce(w, in, out, n, t, r, &op, e); status != SGT_OK) return status;
  const sgt_status status = op_wait(op, e);
  op_release(op);
  return status;
}

const char* version() {
  return "fake";
}

// Filled by name: the table may grow.
sgt_table make_table() {
  sgt_table table = {};
  table.abi_version = SGT_ABI_VERSION;
  table.size = sizeof table;
  table.unique_id = unique_id;
  table.world_create = world_create;
  table.world_rank = world_rank;
  table.world_size = world_size;
  table.world_status = world_status;
  table.world_abort = world_abort;
  table.world_destroy = world_destroy;
  table.allreduce = allreduce;
  table.reduce_scatter = reduce_scatter;
  table.allgather = allgather;
  table.broadcast = broadcast;
  table.barrier = barrier;
  table.op_progress = op_progress;
  table.op_wait = op_wait;
  table.op_release = op_release;
  table.version = version;
  table.reduce = reduce;
  table.allreduce_wait = allreduce_wait;
  table.send = send;
  table.recv = recv;
  return table;
}

const sgt_table kTable = make_table();

sgt_status take(std::deque<sgt_status>* answers) {
  if (answers->empty()) return SGT_OK;
  const sgt_status status = answers->front();
  answers->pop_front();
  return status;
}

}  // namespace

const sgt_table* FakeTransport::table() const {
  return &kTable;
}

ncclUniqueId FakeTransport::id() {
  ncclUniqueId id = {};
  FakeTransport* self = this;
  std::memcpy(id.internal, &self, sizeof self);
  return id;
}

std::vector<std::string> FakeTransport::log() const {
  const std::lock_guard lock(mutex_);
  return log_;
}

bool FakeTransport::reached(const std::string& entry) const {
  const std::lock_guard lock(mutex_);
  return std::find(log_.begin(), log_.end(), entry) != log_.end();
}

void FakeTransport::note(const std::string& entry) {
  const std::lock_guard lock(mutex_);
  log_.push_back(entry);
}

sgt_status FakeTransport::answer(sgt_status status, sgt_error* error) const {
  error->status = status;
  error->culprit = culprit;
  std::snprintf(error->message, sizeof error->message, "%s", message.c_str());
  return status;
}

sgt_status FakeTransport::take_start() {
  return take(&start_answers);
}
sgt_status FakeTransport::take_final() {
  return take(&final_answers);
}

}  // namespace stepgate::hostnccl::test

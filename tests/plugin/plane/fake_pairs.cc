#include "tests/plugin/plane/fake_pairs.h"

#include <chrono>
#include <cstring>
#include <thread>

using stepgate::plane::test::FakePairs;

struct sgt_world {
  std::uint64_t id;
  int end;
};

struct sgt_op {
  sgt_world* world;
  unsigned char* both;
  std::size_t bytes;
  std::uint64_t turn;
};

namespace stepgate::plane::test {
namespace {

FakePairs* alive = nullptr;

std::uint64_t number_of(const sgt_unique_id& id) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.bytes, sizeof number);
  return number;
}

sgt_status fail(sgt_status status, const std::string& why, sgt_error* error) {
  error->status = status;
  error->culprit = -1;
  std::snprintf(error->message, sizeof error->message, "%s", why.c_str());
  return status;
}

sgt_status unique_id_at(const char*, sgt_unique_id* id, sgt_error*) {
  *id = alive->fresh_id();
  return SGT_OK;
}

sgt_status world_create(const sgt_unique_id* id, int rank, int size, const sgt_options* options,
                        sgt_world** world, sgt_error* error) {
  std::unique_lock lock(alive->mutex_);
  if (alive->wait_) {
    lock.unlock();
    while (options->cancelled(options->context) == 0) std::this_thread::yield();
    return fail(SGT_ABORTED, "called off", error);
  }
  alive->deadlines_.push_back(options->timeout_seconds);
  alive->transports_.push_back(options->transports);
  if (alive->opening_takes_ > 0) {
    const std::chrono::duration<double> takes(alive->opening_takes_);
    lock.unlock();
    std::this_thread::sleep_for(takes);
    lock.lock();
  }
  if (alive->refuse_ || size != 2) return fail(SGT_TIMEOUT, "nobody came", error);
  alive->pairs_[number_of(*id)];
  ++alive->worlds_;
  *world = new sgt_world{number_of(*id), rank};
  return SGT_OK;
}

void world_abort(sgt_world* world) {
  const std::lock_guard lock(alive->mutex_);
  FakePairs::Pair& pair = alive->pairs_[world->id];
  if (pair.broken) return;
  pair.broken = true;
  pair.why = "rank " + std::to_string(world->end) + " aborted the world";
}

void world_destroy(sgt_world* world) {
  std::unique_lock lock(alive->mutex_);
  const std::chrono::duration<double> takes(alive->closing_takes_);
  lock.unlock();
  std::this_thread::sleep_for(takes);
  lock.lock();
  --alive->worlds_;
  delete world;
}

sgt_status allgather(sgt_world* world, const void* send, void* recv, size_t bytes, sgt_type, sgt_op** op,
                     sgt_error* error) {
  const std::lock_guard lock(alive->mutex_);
  FakePairs::Pair& pair = alive->pairs_[world->id];
  if (pair.broken) return fail(SGT_PEER_DEAD, pair.why, error);
  const auto* from = static_cast<const unsigned char*>(send);
  pair.posted[world->end].assign(from, from + bytes);
  *op = new sgt_op{world, static_cast<unsigned char*>(recv), bytes, ++pair.turns[world->end]};
  return SGT_OK;
}

// Both ends keep the last frame posted, and neither posts the next before the other has taken this one.
sgt_status op_progress(sgt_op* op, sgt_error* error) {
  const std::lock_guard lock(alive->mutex_);
  FakePairs::Pair& pair = alive->pairs_[op->world->id];
  const int other = 1 - op->world->end;
  if (pair.turns[other] >= op->turn) {
    std::memcpy(op->both + static_cast<std::size_t>(other) * op->bytes, pair.posted[other].data(), op->bytes);
    return SGT_OK;
  }
  return pair.broken ? fail(SGT_PEER_DEAD, pair.why, error) : SGT_IN_PROGRESS;
}

void op_release(sgt_op* op) {
  delete op;
}

void unique_id_close(const sgt_unique_id*) {
  const std::lock_guard lock(alive->mutex_);
  ++alive->closed_;
}

sgt_table make_table() {
  sgt_table t{};
  t.abi_version = SGT_ABI_VERSION;
  t.size = sizeof t;
  t.unique_id_at = unique_id_at;
  t.unique_id_close = unique_id_close;
  t.world_create = world_create;
  t.world_abort = world_abort;
  t.world_destroy = world_destroy;
  t.allgather = allgather;
  t.op_progress = op_progress;
  t.op_release = op_release;
  return t;
}

}  // namespace

FakePairs::FakePairs() {
  alive = this;
}
FakePairs::~FakePairs() {
  alive = nullptr;
}

const sgt_table& FakePairs::table() const {
  static const sgt_table table = make_table();
  return table;
}

sgt_unique_id FakePairs::fresh_id() {
  const std::lock_guard lock(mutex_);
  sgt_unique_id id{};
  ++last_id_;
  std::memcpy(id.bytes, &last_id_, sizeof last_id_);
  return id;
}

void FakePairs::break_pair(const sgt_unique_id& id, const std::string& why) {
  const std::lock_guard lock(mutex_);
  Pair& pair = pairs_[number_of(id)];
  pair.broken = true;
  pair.why = why;
}

void FakePairs::break_all(const std::string& why) {
  const std::lock_guard lock(mutex_);
  for (auto& [number, pair] : pairs_) {
    pair.broken = true;
    pair.why = why;
  }
}

void FakePairs::refuse_to_open(bool on) {
  const std::lock_guard lock(mutex_);
  refuse_ = on;
}

void FakePairs::open_only_when_cancelled(bool on) {
  const std::lock_guard lock(mutex_);
  wait_ = on;
}

void FakePairs::close_slowly(double seconds) {
  const std::lock_guard lock(mutex_);
  closing_takes_ = seconds;
}

void FakePairs::open_slowly(double seconds) {
  const std::lock_guard lock(mutex_);
  opening_takes_ = seconds;
}

int FakePairs::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

int FakePairs::listeners() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(last_id_);
}

int FakePairs::worlds() const {
  const std::lock_guard lock(mutex_);
  return worlds_;
}

sgt_unique_id FakePairs::newest() const {
  const std::lock_guard lock(mutex_);
  sgt_unique_id id{};
  std::memcpy(id.bytes, &last_id_, sizeof last_id_);
  return id;
}

std::vector<double> FakePairs::deadlines() const {
  const std::lock_guard lock(mutex_);
  return deadlines_;
}

std::vector<std::string> FakePairs::transports() const {
  const std::lock_guard lock(mutex_);
  return transports_;
}

}  // namespace stepgate::plane::test

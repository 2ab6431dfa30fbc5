#include "collectives/hostnccl/communicator.h"

#include <cstring>
#include <string>
#include <utility>

namespace stepgate::hostnccl {
namespace {

static_assert(sizeof(sgt_unique_id) == sizeof(ncclUniqueId), "the id is handed on as it is");

}  // namespace

sgt_options Communicator::options_of(const Config& config) {
  sgt_options options = {};
  options.size = sizeof options;
  options.timeout_seconds = config.timeout_seconds;
  options.transports = config.transport.c_str();
  return options;
}

std::shared_ptr<Communicator> Communicator::make(const sgt_table* table, int rank, int size,
                                                 const Config& config) {
  return std::shared_ptr<Communicator>(new Communicator(table, rank, size, config));
}

Outcome Communicator::create(const sgt_table* table, const ncclUniqueId& id, int rank, int size,
                             const Config& config, std::shared_ptr<Communicator>* comm) {
  const std::shared_ptr<Communicator> made = make(table, rank, size, config);
  if (Outcome o = made->connect(id); !o.ok()) return o;
  *comm = made;
  return success();
}

Outcome Communicator::connect(const ncclUniqueId& id) {
  if (size_ == 1) return success();
  sgt_unique_id transport_id;
  std::memcpy(&transport_id, &id, sizeof transport_id);
  sgt_options options = options_of(config_);
  options.cancelled = [](void* self) { return static_cast<Communicator*>(self)->called_off() ? 1 : 0; };
  options.context = this;
  sgt_error error = no_error();
  sgt_world* world = nullptr;
  const sgt_status status = table_->world_create(&transport_id, rank_, size_, &options, &world, &error);
  if (status != SGT_OK) {
    Outcome outcome = translate_status(status, error, called_off());
    outcome.message = "ncclCommInitRank: rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                      ": " + outcome.message;
    return outcome;
  }
  return adopt(world);
}

Outcome Communicator::adopt(sgt_world* world) {
  const std::lock_guard lock(inner_);
  world_ = world;
  if (aborted_ || revoked_) table_->world_abort(world);
  return success();
}

Communicator::Communicator(const sgt_table* table, int rank, int size, Config config)
    : table_(table), rank_(rank), size_(size), config_(std::move(config)) {}

// Reached with a world only where a program never destroyed its communicator; then nobody is asked.
Communicator::~Communicator() {
  if (sgt_world* world = take_world()) {
    table_->world_abort(world);
    table_->world_destroy(world);
  }
}

sgt_world* Communicator::take_world() {
  const std::lock_guard lock(inner_);
  return std::exchange(world_, nullptr);
}

Outcome Communicator::refused_locked() const {
  if (destroyed_) return invalid_argument("the communicator has been destroyed or aborted");
  if (revoked_) return invalid_usage("the communicator was revoked");
  if (!broken_.ok()) return broken_;
  if (finalized_)
    return invalid_usage("the communicator is finalized: only ncclCommDestroy and ncclCommAbort may follow");
  return success();
}

Outcome Communicator::usable() {
  if (sound_.load(std::memory_order_acquire)) return success();
  const std::lock_guard lock(inner_);
  return refused_locked();
}

// In NCCL's words.
Outcome Communicator::ready() {
  if (sound_.load(std::memory_order_acquire)) return success();
  const std::lock_guard lock(inner_);
  if (Outcome o = refused_locked(); !o.ok()) return o;
  if (!in_progress_locked()) {
    sound_.store(true, std::memory_order_release);
    return success();
  }
  return invalid_argument(
      "attempt to use the communicator before the previous operation returned ncclSuccess: ask "
      "ncclCommGetAsyncError until it no longer says ncclInProgress");
}

Outcome Communicator::answers() {
  Outcome now = status();
  return now.code == ncclInProgress ? ready() : now;
}

Outcome Communicator::record(Outcome outcome, int culprit) {
  const std::lock_guard lock(inner_);
  if (!broken_.ok()) return outcome;
  broken_ = outcome;
  culprit_ = culprit;
  sound_ = false;
  return outcome;
}

Outcome Communicator::translate(sgt_status status, const sgt_error& error) {
  if (status == SGT_OK) return success();
  if (status == SGT_IN_PROGRESS) return {ncclInProgress, {}};
  bool aborted_here = false;
  {
    const std::lock_guard lock(inner_);
    aborted_here = aborted_ || revoked_;
  }
  Outcome outcome = translate_status(status, error, aborted_here);
  return status == SGT_INVALID ? outcome : record(std::move(outcome), error.culprit);
}

void Communicator::look_locked() {
  if (world_ == nullptr || !broken_.ok()) return;
  sgt_error error = no_error();
  const sgt_status status = table_->world_status(world_, &error);
  if (status == SGT_OK) return;
  broken_ = translate_status(status, error, aborted_ || revoked_);
  culprit_ = error.culprit;
  sound_ = false;
}

// Asks the transport too: a peer can die while no operation is in flight.
Outcome Communicator::status() {
  const std::lock_guard lock(inner_);
  if (!broken_.ok() && !revoked_) return broken_;
  if (in_progress_locked()) return {ncclInProgress, {}};
  if (revoked_) return success();
  look_locked();
  return broken_;
}

void Communicator::abort() {
  const std::lock_guard lock(inner_);
  aborted_ = true;
  sound_ = false;
  if (world_ != nullptr) table_->world_abort(world_);
  if (broken_.ok()) broken_ = translate_status(SGT_ABORTED, no_error(), true);
}

Outcome Communicator::start(const Request& request, Operation* operation) {
  if (Outcome o = usable(); !o.ok()) return o;
  if (request.count == 0) return success();
  if (size_ == 1) {
    run_alone(request);
    return success();
  }
  sgt_error error = no_error();
  const sgt_status status = start_operation(*table_, world_, rank_, size_, request, operation, &error);
  if (status == SGT_OK || status == SGT_IN_PROGRESS) return success();
  operation->op = nullptr;
  return translate(status, error);
}

Outcome Communicator::run(const Request& request) {
  const auto named = [&](Outcome refused) {
    refused.message = std::string(name_of(request.kind)) + ": " + refused.message;
    return refused;
  };
  const bool at_once = request.kind == Collective::kAllReduce && !request.premul.used() && size_ > 1;
  if (!at_once) {
    Operation operation;
    if (Outcome o = start(request, &operation); !o.ok()) return named(std::move(o));
    Outcome outcome = wait(operation);
    finish(&operation);
    return outcome;
  }
  if (Outcome o = usable(); !o.ok()) return named(std::move(o));
  if (request.count == 0) return success();
  sgt_error error = no_error();
  const sgt_status status = allreduce_now(*table_, world_, request, &error);
  if (status == SGT_OK) return success();
  Outcome outcome = translate(status, error);
  return status == SGT_INVALID ? named(std::move(outcome)) : outcome;
}

Outcome Communicator::progress(const Operation& operation) {
  if (operation.op == nullptr) return success();
  sgt_error error = no_error();
  return translate(table_->op_progress(operation.op, &error), error);
}

Outcome Communicator::wait(const Operation& operation) {
  if (operation.op == nullptr) return success();
  sgt_error error = no_error();
  return translate(table_->op_wait(operation.op, &error), error);
}

void Communicator::finish(Operation* operation) noexcept {
  if (operation->op != nullptr) table_->op_release(std::exchange(operation->op, nullptr));
}

Outcome Communicator::barrier() {
  Operation operation;
  sgt_error error = no_error();
  const sgt_status status = table_->barrier(world_, &operation.op, &error);
  if (status != SGT_OK && status != SGT_IN_PROGRESS) return translate(status, error);
  Outcome outcome = wait(operation);
  finish(&operation);
  return outcome;
}

Outcome Communicator::finalize() {
  if (Outcome o = wait_until_idle(); !o.ok()) return o;
  const std::lock_guard owner(use_);
  {
    const std::lock_guard lock(inner_);
    if (finalized_ && !destroyed_) return success();
    if (Outcome o = refused_locked(); !o.ok()) return o;
  }
  if (size_ > 1) {
    if (Outcome o = barrier(); !o.ok()) return o;
  }
  const std::lock_guard lock(inner_);
  finalized_ = true;
  sound_ = false;
  return success();
}

// The barrier runs while abort can still reach the world; only then is the world taken away.
Outcome Communicator::destroy() {
  wait_for_job();
  if (status().ok()) (void)finalize();
  const std::lock_guard owner(use_);
  {
    const std::lock_guard lock(inner_);
    if (destroyed_) return invalid_argument("the communicator has been destroyed already");
    destroyed_ = true;
    sound_ = false;
  }
  if (sgt_world* world = take_world()) table_->world_destroy(world);
  return success();
}

}  // namespace stepgate::hostnccl

// Communicator: revoked, and as the parent or the child of another.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "collectives/hostnccl/communicator.h"

namespace stepgate::hostnccl {
namespace {

// What a creation asks every few milliseconds: is there a reason to give up?
struct Watch {
  Communicator* child;
  Communicator* parent;
  const std::vector<int>* members;
  bool parent_was_whole;

  bool over() const {
    if (child->called_off() || parent->called_off_by_abort()) return true;
    return parent_was_whole && parent->lost_one_of(*members);
  }
};

int is_over(void* watch) {
  return static_cast<const Watch*>(watch)->over() ? 1 : 0;
}

}  // namespace

bool Communicator::called_off() {
  const std::lock_guard lock(inner_);
  return aborted_ || revoked_;
}

bool Communicator::called_off_by_abort() {
  const std::lock_guard lock(inner_);
  return aborted_;
}

bool Communicator::revoked() {
  const std::lock_guard lock(inner_);
  return revoked_;
}

bool Communicator::lost_one_of(const std::vector<int>& ranks) {
  const std::lock_guard lock(inner_);
  look_locked();
  return !broken_.ok() && std::find(ranks.begin(), ranks.end(), culprit_) != ranks.end();
}

bool Communicator::whole() {
  const std::lock_guard lock(inner_);
  look_locked();
  return broken_.ok() && !revoked_;
}

// The rank that gave up saw a death a moment before this one does, or aborted the parent.
bool Communicator::learns_of_a_loss(const std::vector<int>& ranks) {
  constexpr std::chrono::milliseconds kLook{5};
  constexpr int kLooks = 400;
  for (int look = 0; look < kLooks; ++look) {
    if (lost_one_of(ranks)) return true;
    std::this_thread::sleep_for(kLook);
  }
  return false;
}

// In the words of the parent where that knows better: it counts its own ranks.
Outcome Communicator::join(Communicator& parent, const std::vector<int>& members, bool parent_was_whole) {
  if (size_ == 1) return success();
  if (parent.world_ == nullptr) return parent.usable();
  Watch watch{this, &parent, &members, parent_was_whole};
  sgt_options options = options_of(config_);
  options.cancelled = is_over;
  options.context = &watch;
  sgt_error error = no_error();
  sgt_world* world = nullptr;
  const sgt_status status =
      table_->world_subset(parent.world_, members.data(), size_, &options, &world, &error);
  if (status == SGT_OK) return adopt(world);
  if (parent.called_off_by_abort()) return translate_status(SGT_ABORTED, no_error(), true);
  const bool told = status == SGT_ABORTED ? parent_was_whole && parent.learns_of_a_loss(members)
                                          : parent_was_whole && parent.lost_one_of(members);
  if (told) return parent.usable();
  Outcome outcome = translate_status(status, error, false);
  outcome.message = "rank " + std::to_string(rank_) + " of the new communicator's " + std::to_string(size_) +
                    ", whose ranks these are: " + outcome.message;
  if (error.culprit >= 0 && error.culprit < size_) {
    outcome.message += "; it is rank " + std::to_string(members[static_cast<std::size_t>(error.culprit)]) +
                       " of the old one";
  }
  return outcome;
}

Outcome Communicator::exchange(const int* mine, int count, int* all) {
  if (size_ == 1) {
    std::memcpy(all, mine, static_cast<std::size_t>(count) * sizeof *mine);
    return success();
  }
  Operation operation;
  sgt_error error = no_error();
  const sgt_status status =
      table_->allgather(world_, mine, all, static_cast<std::size_t>(count), SGT_INT32, &operation.op, &error);
  if (status != SGT_OK && status != SGT_IN_PROGRESS) return translate(status, error);
  Outcome outcome = wait(operation);
  finish(&operation);
  return outcome;
}

Outcome Communicator::begin_finalize() {
  const std::lock_guard lock(inner_);
  if (finalize_called_ || revoked_) {
    return invalid_argument(revoked_ ? "the communicator was revoked: it cannot be finalized"
                                     : "the communicator has been finalized already");
  }
  finalize_called_ = true;
  return success();
}

void Communicator::take_back_finalize() {
  const std::lock_guard lock(inner_);
  finalize_called_ = false;
}

Outcome Communicator::begin_revoke() {
  const std::lock_guard lock(inner_);
  if (destroyed_ || finalize_called_ || revoked_) {
    return invalid_argument(revoked_
                                ? "the communicator has been revoked already"
                                : "the communicator has been finalized or destroyed: it cannot be revoked");
  }
  revoked_ = true;
  sound_ = false;
  if (world_ != nullptr) table_->world_abort(world_);
  return success();
}

void Communicator::end_operations() {
  break_with({ncclInternalError, "the communicator's operations were ended by NCCL_SHRINK_ABORT"});
}

// Whoever holds it has ended its operation by now, or is about to.
Outcome Communicator::come_to_rest() {
  Outcome outcome = wait_until_idle();
  const std::lock_guard owner(use_);
  return outcome;
}

}  // namespace stepgate::hostnccl

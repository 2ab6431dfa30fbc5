// Short all-reduces over the mailbox, and the way on which they need no operation: the letter is posted, and
// where everybody's comes within moments, the result is there. Otherwise an operation waits for them.
#include <sched.h>

#include "collectives/ucx/backoff.h"
#include "collectives/ucx/world.h"

namespace stepgate::transport {
namespace {

constexpr int kSpins = 2000;         // some microseconds, where every rank has a core
constexpr int kYields = 16;          // where they share cores
constexpr int kMostUnattended = 64;  // calls in a row that look neither at clocks nor at UCX

}  // namespace

Operation* World::begin_letter(const Reducer& reducer, Ticket ticket, const void* send, void* recv,
                               size_t count) {
  return begin_with({ticket.sequence, false}, {"all-reduce", 1, 1, [=, this](Lane& lane, uint32_t) {
                                                 return letter_allreduce(lane, place_, reducer, scratch_,
                                                                         *mailbox_, ticket, send, recv,
                                                                         count);
                                               }});
}

sgt_status World::allreduce_wait(const void* send, void* recv, size_t count, sgt_type type,
                                 sgt_reduction reduction, Failure* failure) {
  const Reducer reducer(type, reduction, place_.size);
  Operation* operation = nullptr;
  if (mails(count * reducer.width())) {
    const std::lock_guard lock(mutex_);
    require_sound();
    Ticket ticket = take_ticket();
    if (active_.empty() && exchange_letters(reducer, ticket, send, recv, count)) {
      if (!broken()) return SGT_OK;
      const std::lock_guard failure_lock(failure_mutex_);
      *failure = failure_;
      return failure_.status;
    }
    ticket.posted = active_.empty();
    operation = begin_letter(reducer, ticket, send, recv, count);
  } else {
    operation = allreduce(send, recv, count, type, reduction);
  }
  const sgt_status status = wait(*operation, failure);
  release(operation);
  return status;
}

// Nothing is under way, so it is this one's turn. False: the letter is posted, and others are not there yet.
bool World::exchange_letters(const Reducer& reducer, Ticket ticket, const void* send, void* recv,
                             size_t count) {
  if (++unattended_ >= kMostUnattended) slice();
  if (broken()) return true;
  const Mailbox::Head mine{count, reducer.kind(), ticket.sequence};
  mailbox_->post(mine, send, count * reducer.width());
  const bool come = letters_come();
  mailbox_->wake_sleepers();
  if (!come) return false;
  Failure differs;
  if (!letters_agree(*mailbox_, place_, mine, &differs)) {
    differs.message = "all-reduce: " + differs.message;
    fail(std::move(differs), true);
    return true;
  }
  combine_letters(*mailbox_, place_, reducer, scratch_, send, recv, count);
  mailbox_->next();
  return true;
}

// A rank that works through a long all-reduce sends nobody a message meanwhile. Those who wait see its beat.
void World::tell_that_it_moves(const Operation& operation) {
  if (mailbox_ != nullptr && !operation.numbering().of_pair)
    mailbox_->beat(operation.numbering().sequence, static_cast<uint32_t>(operation.moves()));
}

bool World::moves(Operation& operation) {
  const bool counts = mailbox_ != nullptr && !operation.numbering().of_pair;
  const uint64_t beats = counts ? mailbox_->beats_up_to(operation.numbering().sequence) : 0;
  const bool moved = operation.moves() != operation.moves_seen || beats != operation.beats_seen;
  operation.moves_seen = operation.moves();
  operation.beats_seen = beats;
  return moved;
}

bool World::letters_come() {
  for (int i = 0; i < (may_spin_ ? kSpins : kYields); ++i) {
    if (mailbox_->arrived()) return true;
    if (abort_requested_.load(std::memory_order_relaxed)) return false;
    if (!may_spin_) sched_yield();
  }
  return false;
}

}  // namespace stepgate::transport

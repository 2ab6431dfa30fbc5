#include "collectives/ucx/world.h"

#include <poll.h>
#include <sched.h>

#include "collectives/ucx/backoff.h"
#include "collectives/ucx/meeting.h"

namespace stepgate::transport {
namespace {

constexpr auto kAttendEvery = std::chrono::microseconds(200);
constexpr int kMostUnattended = 64;    // slices in a row that look at no clock
constexpr int kLongestSleepMs = 20;    // an upper bound on how late a deadline or a query is noticed
constexpr double kVerdictSeconds = 2;  // for the coordinator to judge what we told it
constexpr double kSettleSeconds = 1;   // for cancelled messages to complete

std::string rank_text(int rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace

// Nobody closes an endpoint that another rank may still need: all ranks say leave, and all hear that all
// have. A rank leaves with its operations done and its messages gone, so after that no message is worth
// delivering and endpoints can be closed by force. Endpoints before operations (whose requests live in the
// worker), the worker last.
World::~World() {
  const std::lock_guard lock(mutex_);
  if (fabric_ == nullptr) return;
  if (!broken()) leave();
  close();
}

// mutex_ is held. The buffers go back to the caller with this. A world that broke has ended its messages.
void World::close() {
  memory_.withdraw();
  if (!broken()) end_messages();
  control_.close();
  if (!at_rest_) abandon();
  spare_.reset();
  operations_.clear();
  graveyard_.clear();
  fabric_.reset();
}

// UCX holds on to messages that neither cancelling nor closing ended, as seen after a death in the middle
// of a long transfer. Destroying their worker would abort the process; unused, it harms nobody.
void World::abandon() {
  struct Attic {
    std::vector<std::unique_ptr<Fabric>> fabrics;
    std::vector<std::unique_ptr<Operation>> operations;
  };
  static std::mutex mutex;
  static auto* const attic = new Attic;  // never destroyed, but reachable for leak checkers
  const std::lock_guard lock(mutex);
  attic->fabrics.push_back(std::move(fabric_));
  for (auto* list : {&operations_, &graveyard_})
    for (auto& operation : *list) attic->operations.push_back(std::move(operation));
}

// What is still under way is finished, as by release(): the peers count on it, and may be reading its
// buffers. As long as it moves, it may take longer than one timeout; if it does not, its own deadline breaks
// the world.
void World::leave() {
  while (!active_.empty() && !broken()) work_until([this] { return active_.empty(); });
  flush();
  if (broken()) return;
  closing_ = true;
  control_.leave();
  work_until([this] { return all_left_; });
}

void World::flush() {
  fabric_->flush();
  work_until([this] { return fabric_->flushed(); });
}

// mutex_ is held throughout: for creation and destruction. Deadlines of operations break the world.
template <typename Condition>
void World::work_until(Condition reached) {
  const Deadline deadline = Deadline::after(timeout_seconds_);
  Backoff backoff(false);
  while (!reached() && !broken() && !deadline.passed()) {
    if (slice())
      backoff.reset();
    else if (!backoff.pause() && may_sleep())
      sleep();
    listen();
  }
}

Operation* World::begin(const Operation::Plan& plan) {
  const std::lock_guard lock(mutex_);
  require_sound();
  return begin_with({sequence_++, false}, plan);
}

Operation* World::begin_with(Numbering numbering, const Operation::Plan& plan) {
  if (spare_)
    spare_->restart(numbering, plan);
  else
    spare_ = std::make_unique<Operation>(*this, *fabric_, frames_, place_.rank, numbering, plan);
  operations_.push_back(std::move(spare_));
  Operation* operation = operations_.back().get();
  active_.push_back(operation);
  operation->advance();
  collect(*operation);
  return operation;
}

// One message, whatever its length: only so does a receiver see at once that the sender's is another.
Operation* World::send(const void* data, size_t bytes, int peer) {
  const std::lock_guard lock(mutex_);
  require_sound();
  const Numbering numbering{sent_to_[static_cast<size_t>(peer)]++, true};
  return begin_with(
      numbering, {"send", 1, 1, [=](Lane& lane, uint32_t) { return send_message(lane, peer, data, bytes); }});
}

Operation* World::receive(void* data, size_t bytes, int peer) {
  const std::lock_guard lock(mutex_);
  require_sound();
  const Numbering numbering{received_from_[static_cast<size_t>(peer)]++, true};
  return begin_with(numbering, {"receive", 1, 1, [=](Lane& lane, uint32_t) {
                                  return receive_message(lane, peer, data, bytes);
                                }});
}

void World::require_sound() {
  if (!broken() && !abort_requested_) return;
  const std::lock_guard lock(failure_mutex_);
  throw Error(broken() ? failure_
                       : Failure{SGT_ABORTED, place_.rank, rank_text(place_.rank) + " aborted the world"});
}

sgt_status World::status_of(const Operation& operation, Failure* failure) {
  if (operation.done()) return SGT_OK;
  if (!broken()) return SGT_IN_PROGRESS;
  const std::lock_guard lock(failure_mutex_);
  *failure = failure_;
  return failure_.status;
}

sgt_status World::progress(Operation& operation, Failure* failure) {
  const std::lock_guard lock(mutex_);
  if (!operation.done()) slice();
  return status_of(operation, failure);
}

sgt_status World::wait(Operation& operation, Failure* failure) {
  Backoff backoff(may_spin_);
  for (;;) {
    bool moved = false;
    {
      const std::lock_guard lock(mutex_);
      if (!operation.done()) moved = slice(!backoff.fresh());
      const sgt_status status = status_of(operation, failure);
      if (status != SGT_IN_PROGRESS) return status;
    }
    if (moved)
      backoff.reset();
    else if (!backoff.pause()) {
      std::unique_lock lock(mutex_);
      if (broken() || !may_sleep()) continue;
      lock.unlock();
      sleep();
    }
  }
}

// True: whatever comes now makes one of the descriptors readable that sleep() waits for.
bool World::may_sleep() {
  if (!fabric_->arm()) return false;
  if (mailbox_ == nullptr || mailbox_->doze()) return true;
  mailbox_->rouse();
  return false;
}

void World::sleep() {
  pollfd fds[] = {{fabric_->event_fd(), POLLIN, 0},
                  {wake_.get(), POLLIN, 0},
                  {control_.fd(), POLLIN, 0},
                  {mailbox_ != nullptr ? mailbox_->fd() : -1, POLLIN, 0}};
  poll(fds, 4, kLongestSleepMs);
  if (fds[1].revents != 0) drain_event(wake_);
  if (mailbox_ != nullptr) mailbox_->rouse();
}

// An operation that is released unfinished is finished first: its peers count on it.
void World::release(Operation* operation) {
  {
    const std::lock_guard lock(mutex_);
    if (operation->done()) return bury(operation);
  }
  Failure failure;
  wait(*operation, &failure);
  const std::lock_guard lock(mutex_);
  bury(operation);
}

void World::bury(Operation* operation) {
  std::erase(active_, operation);
  const auto it = std::find_if(operations_.rbegin(), operations_.rend(),
                               [operation](const auto& held) { return held.get() == operation; });
  if (it == operations_.rend()) return;
  if (operation->done())
    spare_ = std::move(*it);
  else if (!operation->settled())
    graveyard_.push_back(std::move(*it));
  operations_.erase(std::next(it).base());
}

bool World::slice(bool with_control) {
  if (broken()) return false;
  if (abort_requested_) {
    fail({SGT_ABORTED, place_.rank, rank_text(place_.rank) + " aborted the world"}, true);
    return false;
  }
  bool moved = fabric_->progress();
  for (size_t i = 0; i < active_.size();) {
    Operation* operation = active_[i];
    if (operation->advance()) {
      moved = true;
      tell_that_it_moves(*operation);
    }
    collect(*operation);
    if (i < active_.size() && active_[i] == operation) ++i;
  }
  if (!broken() && fabric_->failed_peer() >= 0) {
    const int peer = fabric_->failed_peer();
    suspect({SGT_PEER_DEAD, peer, rank_text(peer) + " died: its endpoint failed"});
  }
  if (broken() || (!with_control && ++unattended_ < kMostUnattended)) return moved;
  unattended_ = 0;
  const Time now = Clock::now();
  if (now - attended_at_ >= kAttendEvery) attend(now);
  return moved;
}

// Takes a finished operation off the list, or acts on its failure.
void World::collect(Operation& operation) {
  const Failure& failure = operation.failure();
  if (operation.done()) {
    std::erase(active_, &operation);
  } else if (operation.broken_peer() >= 0) {
    Failure named = failure;
    named.message = std::string(operation.name()) + ": " + named.message;
    suspect(std::move(named));
  } else if (failure.status != SGT_OK) {
    Failure named = failure;
    named.message = std::string(operation.name()) + ": " + named.message;
    fail(std::move(named), true);
  }
}

void World::attend(Time now) {
  // Time in which the caller did not ask for progress is not time spent waiting.
  if (now - attended_at_ > std::max<Clock::duration>(seconds(timeout_seconds_ / 2), seconds(1)))
    attended_since_ = now;
  attended_at_ = now;
  listen();
  if (!broken() && !closing_) check_deadlines(now);
}

void World::listen() {
  Failure verdict;
  for (auto event = control_.poll(&verdict); event != Control::Event::kNone;
       event = control_.poll(&verdict)) {
    if (event == Control::Event::kQuery) control_.waits(waits_for());
    if (event == Control::Event::kAllLeft) all_left_ = true;
    if (event == Control::Event::kVerdict) return fail(verdict, false);
    if (event == Control::Event::kLost) return lost_coordinator();
  }
}

void World::lost_coordinator() {
  const std::string who =
      coordinator_rank_ >= 0 ? rank_text(coordinator_rank_) : "the owner of the unique id";
  fail({coordinator_rank_ >= 0 ? SGT_PEER_DEAD : SGT_SYSTEM, coordinator_rank_,
        who + " died: its process, which keeps the control channel, is gone"},
       false);
}

void World::check_deadlines(Time now) {
  if (pending_) {
    if (now >= pending_->until) fail(pending_->failure, pending_->tell);
    return;
  }
  for (Operation* operation : active_) {
    if (moves(*operation)) operation->moved_at = now;
    if (now - std::max(operation->moved_at, attended_since_) < seconds(timeout_seconds_)) continue;
    const int peer = operation->waits_for();
    Failure failure{SGT_TIMEOUT, peer,
                    describe_timeout(place_.rank, peer, timeout_seconds_, operation->name())};
    control_.report(failure);
    pending_ = Pending{std::move(failure), now + seconds(kVerdictSeconds), false};
    return;
  }
}

// The coordinator decides: the peer may have closed its endpoint because it gave up on somebody else. A
// failure that does not say that the peer is dead may be such a consequence as well; if no verdict comes, it
// stands for itself and the others are told.
void World::suspect(Failure failure) {
  if (pending_ || closing_) return;
  const bool dead = failure.status == SGT_PEER_DEAD;
  if (dead) control_.suspect(failure.culprit);
  pending_ = Pending{std::move(failure), Clock::now() + seconds(kVerdictSeconds), !dead};
}

int World::waits_for() const {
  for (const Operation* operation : active_)
    if (const int peer = operation->waits_for(); peer >= 0) return peer;
  return -1;
}

void World::fail(Failure failure, bool tell) {
  if (broken()) return;
  memory_.withdraw();
  if (tell) control_.report(failure);
  {
    const std::lock_guard lock(failure_mutex_);
    failure_ = std::move(failure);
    status_.store(failure_.status, std::memory_order_release);
  }
  end_messages();
  raise_event(wake_);
}

// Buffers go back to the caller soon; UCX should be done with them by then. After this nobody drives the
// worker again, so that even a message that did not end touches nothing.
void World::end_messages() {
  for (Operation* operation : active_) operation->cancel();
  const Deadline deadline = Deadline::after(kSettleSeconds);
  const bool closed = fabric_->close_endpoints(deadline);
  const auto outstanding = [this] {
    return std::any_of(active_.begin(), active_.end(), [](Operation* o) { return !o->settled(); });
  };
  while (outstanding() && !deadline.passed()) {
    fabric_->progress();
    sched_yield();
  }
  at_rest_ = at_rest_ && closed && !outstanding();
  active_.clear();
}

sgt_status World::status(Failure* failure) {
  if (std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock() && !broken() && fabric_) listen();
  const std::lock_guard lock(failure_mutex_);
  *failure = failure_;
  return failure_.status;
}

void World::abort() {
  abort_requested_ = true;
  raise_event(wake_);
  const std::lock_guard lock(mutex_);
  if (!broken()) slice();
}

}  // namespace stepgate::transport

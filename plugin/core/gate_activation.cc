// Gate: entering and leaving enforce, and the built-in exchange.
//
// The exchange is one ncclAllReduce on the job's own communicator (groups.h: or on several in turn), issued
// by the calling thread at the same point on every rank. No lock of ours is held meanwhile.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "collectives/core/decimal.h"
#include "plugin/core/activation.h"
#include "plugin/core/gate.h"
#include "plugin/core/last_error.h"
#include "plugin/core/nccl_calls.h"
#include "plugin/core/timed_call.h"

namespace stepgate::gate {
namespace {

static_assert(kActivationFields <= kExchangeFields, "an activation must fit the one message size");
static_assert(kExchangeFields <= STEPGATE_ACTIVATION_FIELDS, "the public array holds an activation");
static_assert(kExchangeFields <= STEPGATE_SUMMARY_FIELDS, "the public array holds a summary");

constexpr char kStuck[] = "an earlier all-reduce of this gate has never returned; nothing more is issued";

}  // namespace

// What carries the exchanges since the last activation.
Chain Gate::chain() const {
  const std::lock_guard lock(mutex_);
  return groups_.chain();
}

#if defined(STEPGATE_WITHOUT_EXCHANGE)
// What frameworks without an agreement do: every rank believes that all others saw what it saw. Built
// for one test alone, which must then find ranks that decide differently.
bool Gate::exchange_step(const double* send, double* recv, device::Stream, std::uint64_t,
                         std::string*) noexcept {
  for (int i = 0; i < kExchangeFields; ++i) recv[i] = send[i] * options_.world;
  return true;
}
#else
bool Gate::exchange_step(const double* send, double* recv, device::Stream s, std::uint64_t agreement,
                         std::string* why) noexcept {
  return exchange(send, recv, s, agreement, why);
}
#endif

bool Gate::exchange(const double* send, double* recv, device::Stream s, std::uint64_t agreement,
                    std::string* why) noexcept {
  try {
    if (exchange_stuck_) {
      *why = kStuck;
      return false;
    }
    return sum_over_chain(
        services_, chain(), send, recv, nothing_.get(), kExchangeFields, s,
        options_.configuration.activation_timeout_seconds, *polls_,
        [this, agreement] { return agreement_ != agreement; }, why);
  } catch (...) {
    // Out of memory for a sentence: the caller still learns that there was no exchange.
  }
  return false;
}

stepgate_status Gate::enforce_summarize(device::Stream s, double* fields) {
  const stepgate_status still = ready_to_vote("stepgate_enforce_summarize", s);
  if (still != STEPGATE_OK) return still;
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kIdle) {
    return fail(STEPGATE_INVALID,
                "stepgate_enforce_summarize: step " + std::to_string(step_) + " is still open");
  }
  // A caller that carries the sums itself needs no group; one that does not hears of it at its step's end.
  std::string no_group;
  groups_.fix_chain(options_.world, &no_group);
  std::memset(fields, 0, sizeof(double) * STEPGATE_ACTIVATION_FIELDS);
  const bool willing = options_.configuration.mode == Mode::kEnforce;
  write_ballot(ballot_locked(), BallotKind::kEnter, static_cast<std::uint32_t>(options_.rank), willing,
               fields);
  return STEPGATE_OK;
}

Ballot Gate::ballot_locked() const {
  const GateBlock& g = *mirror_.get();
  Ballot b;
  b.version = (STEPGATE_API_VERSION << 16) | kSummaryVersion;
  StepPolicy policy = options_.policy;
  policy.world = static_cast<std::uint32_t>(options_.world);
  b.configuration = configuration_digest(g.params, policy);
  b.groups = groups_.digest();
  b.state = (digest16(&g.scaler, sizeof g.scaler) << 16) | digest16(&g.params, sizeof g.params);
  b.generation = static_cast<std::uint32_t>(g.generation);
  b.decided = static_cast<std::uint32_t>(g.last_decided);
  b.confirmed = static_cast<std::uint32_t>(g.last_confirmed);
  b.ahead = begun_steps_locked() - std::min(begun_steps_locked(), g.last_decided);
  return b;
}

stepgate_status Gate::enforce_decide(device::Stream, const double* fields) {
  const auto world = static_cast<std::uint32_t>(options_.world);
  const Verdict v = count_ballots(fields, BallotKind::kEnter, world);
  if (!v.accepted) return refuse(v.reason, v.why);
  // All ranks have agreed to enforce: this one may not fall back alone. What fails from here on makes it
  // join with the failure summary, and thereby releases everybody at the first step.
  bool known = quiesce("stepgate_enforce_decide") == STEPGATE_OK;
  {
    const std::lock_guard lock(mutex_);
    broken_ = false;
    known = control_locked() && known &&
            write_fresh_locked(mirror_.get()->last_decided + furthest_ahead(fields, world));
    known = renew_summary_locked() && known;
    release_counted_ = false;
    for (std::uint32_t i = 0; i < ranges_.slots(); ++i) write_slot(i);  // sets broken_ where one fails
  }
  known = device_.synchronize(control_) == device::Code::kOk && known;
  const std::lock_guard lock(mutex_);
  if (!known) {
    counters_.error(metrics::Stage::kDecide);
    broken_ = true;
  }
  ever_enforced_ = true;
  enforcing_ = true;
  log_.info("enforce begins: " + std::to_string(options_.world) + " ranks, rule " +
            scaler_rule_name(options_.params.rule));
  return STEPGATE_OK;
}

// False: there is no memory for a summary of the new agreement's own.
bool Gate::renew_summary_locked() noexcept {
  if (!summary_in_doubt_) return true;
  try {
    kept_summaries_.emplace_back();
    if (!kept_summaries_.back().allocate(device_, std::size_t{kMaxSets} * kExchangeFields,
                                         device::Memory::kDevice)) {
      kept_summaries_.pop_back();
      return false;
    }
    std::swap(kept_summaries_.back(), summary_);  // a graph may go on with the old one
  } catch (...) {
    return false;
  }
  summary_in_doubt_ = false;
  return true;
}

// The block with which all ranks begin, from what this one's was. step: alike on all, for summaries are
// compared by it, and never a step that this rank has begun already, for statistics and records bear its
// stamp.
bool Gate::write_fresh_locked(std::uint64_t step) noexcept {
  GateBlock fresh = *mirror_.get();
  fresh.policy = options_.policy;
  fresh.policy.world = static_cast<std::uint32_t>(options_.world);
  fresh.enforcing = 1;
  fresh.slots = kAnonymousSlots + ranges_.slots();
  fresh.in_turns = groups_.chain().in_turns();
  fresh.released = fresh.unguarded = fresh.undecided = fresh.veto = fresh.degrade = 0;
  fresh.diverged_in_row = 0;
  // What was decided before is not compared: a newcomer that has taken over a state has decided nothing.
  fresh.digest_b = 0;
  fresh.digest_b_step = 0;
  step_ = fresh.step = std::max(step, begun_steps_locked());
  for (SetBlock& set : fresh.sets) set.summarized_step = set.decided_step;
  if (device_.copy_in(control_, block_.get(), &fresh, sizeof fresh) != device::Code::kOk) return false;
  mirror_locked(control_);
  poked_locked();
  return !broken_;
}

stepgate_status Gate::refuse(metrics::RefuseReason reason, const std::string& why) {
  counters_.refused(reason);
  enforcing_ = false;
  log_.warn("enforce refused on all ranks: " + why);
  const std::string own = options_.abstains.empty() ? "" : "; this rank: " + options_.abstains;
  return fail(STEPGATE_REFUSED, "enforce refused: " + why + own);
}

// One exchange over the built-in transport around a ballot; the sums land on the host. At the deadline
// the issued all-reduce stays, with its buffer, and nothing more goes onto that communicator.
stepgate_status Gate::vote(BallotKind kind, bool willing, device::Stream s, double* sums) {
  if (exchange_stuck_) return fail(STEPGATE_FAILED, kStuck);
  double fields[kExchangeFields] = {};
  Chain links;
  std::string why;
  std::shared_ptr<PendingBallot> ballot;
  {
    const std::lock_guard lock(mutex_);
    ballot = ballot_;
    // A rank that abstains may have been told a size that it cannot read: the vote spans the group.
    if (kind == BallotKind::kEnter && !groups_.fix_chain(options_.world, &why) &&
        (options_.abstains.empty() || !groups_.fix_chain(groups_.largest(), &why))) {
      return fail(STEPGATE_FAILED, why);
    }
    links = groups_.chain();
    write_ballot(ballot_locked(), kind, static_cast<std::uint32_t>(options_.rank), willing, fields);
  }
  // A rank that cannot put its ballot down still joins, with the one made at creation: then all ranks
  // are refused together instead of waiting for this one.
  const bool ready = device_.copy_in(s, ballot->fields.get(), fields, sizeof fields) == device::Code::kOk;
  if (!ready) counters_.error(metrics::Stage::kSummarize);
  const double* send = ready ? ballot->fields.get() : ballot->unwilling.get();
  const double seconds = options_.configuration.activation_timeout_seconds;
  const ShimServices services = services_;
  device::Device* const device = &device_;
  const bool in_time = run_with_deadline(
      [ballot, services, device, links, send, s, seconds, polls = polls_] {
        ballot->summed = sum_over_chain(
            services, links, send, ballot->fields.get(), ballot->nothing.get(), kExchangeFields, s, seconds,
            *polls, [b = ballot.get()] { return b->abandoned.load(); }, &ballot->error);
        if (!ballot->summed) return;
        // On a device the call has only been enqueued: the other ranks are waited for here.
        ballot->copied =
            device->copy_out(s, ballot->sums.get(), ballot->fields.get(), sizeof(double) * kExchangeFields);
        if (ballot->copied == device::Code::kOk) ballot->copied = device->synchronize(s);
        if (ballot->copied != device::Code::kOk) ballot->error = device->last_error();
      },
      std::chrono::duration<double>(seconds));
  if (!in_time) {
    ballot->abandoned = true;
    exchange_stuck_ = true;
    return fail(STEPGATE_TIMEOUT,
                "no answer of all ranks within " + shortest_decimal(seconds) +
                    " s; the all-reduce that was issued stays on the communicator, and this gate "
                    "issues no other");
  }
  if (!ballot->summed) counters_.error(metrics::Stage::kExchange);
  if (!ballot->summed || ballot->copied != device::Code::kOk) return fail(STEPGATE_FAILED, ballot->error);
  std::memcpy(sums, ballot->sums.get(), sizeof(double) * kExchangeFields);
  return STEPGATE_OK;
}

// The host's picture of the block is what the ballot speaks of.
stepgate_status Gate::ready_to_vote(const char* function, device::Stream s) {
  if (exchange_stuck_) return fail(STEPGATE_FAILED, kStuck);
  if (s == kPerThreadStream && !device_.immediate()) return per_thread(function);
  if (const stepgate_status still = quiesce(function); still != STEPGATE_OK) return still;
  const std::lock_guard lock(mutex_);
  if (device_.capture_state(s) != device::CaptureState::kNone) {
    return fail(STEPGATE_INVALID, std::string(function) + ": the stream is being captured");
  }
  if (!enter_locked(s, device::CaptureState::kNone)) counters_.error(metrics::Stage::kSummarize);
  return STEPGATE_OK;
}

stepgate_status Gate::enforce_begin(device::Stream s) {
  {
    const std::lock_guard lock(mutex_);
    if (phase_ != Phase::kIdle) {
      return fail(STEPGATE_INVALID,
                  "stepgate_enforce_begin: step " + std::to_string(step_) + " is still open");
    }
  }
  const stepgate_status still = ready_to_vote("stepgate_enforce_begin", s);
  if (still != STEPGATE_OK) return still;
  double sums[kExchangeFields] = {};
  const bool willing = options_.configuration.mode == Mode::kEnforce;
  stepgate_status voted = vote(BallotKind::kEnter, willing, s, sums);
  if (chain().in_turns()) voted = confirm(voted, s, sums);
  return voted == STEPGATE_OK ? enforce_decide(s, sums) : voted;
}

// Over groups that do not form a mesh the sums differ from rank to rank, and so do the verdicts. Whose sums
// are those of all ranks, each once, in both rounds hears here whether all the others say the same.
stepgate_status Gate::confirm(stepgate_status voted, device::Stream s, const double* sums) {
  if (exchange_stuck_) return voted;
  const std::string failure = voted == STEPGATE_OK ? "" : last_error();
  const auto world = static_cast<std::uint32_t>(options_.world);
  const bool accepts = voted == STEPGATE_OK && count_ballots(sums, BallotKind::kEnter, world).accepted;
  double again[kExchangeFields] = {};
  const stepgate_status confirmed = vote(BallotKind::kConfirm, accepts, s, again);
  if (confirmed == STEPGATE_TIMEOUT) return confirmed;
  if (voted != STEPGATE_OK) return fail(voted, failure);
  if (!accepts) return STEPGATE_OK;  // enforce_decide finds and says the same
  if (confirmed != STEPGATE_OK) return confirmed;
  const Verdict v = count_ballots(again, BallotKind::kConfirm, world);
  return v.accepted ? STEPGATE_OK : refuse(v.reason, v.why);
}

stepgate_status Gate::enforce_end(device::Stream s) {
  if (!enforcing())
    return fail(STEPGATE_INACTIVE, "stepgate_enforce_end: enforce is not active on this gate");
  abandon_recording();
  const stepgate_status still = ready_to_vote("stepgate_enforce_end", s);
  if (still != STEPGATE_OK) return still;
  double sums[kExchangeFields] = {};
  const stepgate_status voted = vote(BallotKind::kLeave, true, s, sums);
  {
    const std::lock_guard lock(mutex_);
    enforcing_ = false;
    phase_ = Phase::kIdle;
    counters_.released(metrics::ReleaseReason::kEnded);
  }
  if (voted != STEPGATE_OK) return voted;
  const Verdict v = count_ballots(sums, BallotKind::kLeave, static_cast<std::uint32_t>(options_.world));
  const bool together = v.accepted || (v.reason != metrics::RefuseReason::kContributors &&
                                       v.reason != metrics::RefuseReason::kOther);
  return together ? STEPGATE_OK : fail(STEPGATE_FAILED, "stepgate_enforce_end: " + v.why);
}

}  // namespace stepgate::gate

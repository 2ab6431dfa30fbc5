#include "collectives/ucx/coordinator.h"

#include <algorithm>

namespace stepgate::transport {
namespace {

constexpr double kAnswerSeconds = 0.5;    // a live rank that waits looks at its control channel every 20 ms
constexpr double kSuspectSeconds = 0.3;   // the suspect's own last words may still be on their way
constexpr double kLateComerSeconds = 60;  // how long a refused world still tells late ranks why

std::string rank_text(int rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace

bool Coordinator::receive(Connection from, const Frame& frame, Time now) {
  if (frame.type == kHello) return hello(from, frame.body, now);
  const auto it = ranks_.find(from);
  if (it == ranks_.end()) return false;
  switch (frame.type) {
    case kBlob: return blob(it->second, frame.body);
    case kReport: return report(it->second, frame.body, now);
    case kSuspect: return suspect(frame.body, now);
    case kWaits: return waits(it->second, frame.body);
    case kLeave: leave(it->second); return true;
    default: return false;
  }
}

bool Coordinator::hello(Connection from, const std::string& body, Time now) {
  Hello hello;
  if (!unpack(body, &hello) || hello.key != key_ || known(from)) return false;
  if (verdict_) {
    sink_(from, kRefused, pack_failure(*verdict_));
    return true;
  }
  admit(from, hello, now);
  return true;
}

void Coordinator::admit(Connection from, const Hello& hello, Time now) {
  if (members_.empty() && hello.size > 0 && hello.size <= kLargestWorld)
    members_.resize(static_cast<size_t>(hello.size));
  Failure refusal{SGT_INVALID, hello.rank, ""};
  if (hello.version != kProtocolVersion)
    refusal.message = rank_text(hello.rank) + " speaks version " + std::to_string(hello.version) +
                      " of the rendezvous; this is version " + std::to_string(kProtocolVersion);
  else if (hello.size != size())
    refusal.message = rank_text(hello.rank) + " was told a world of " + std::to_string(hello.size) +
                      " ranks, the first to arrive one of " + std::to_string(size());
  else if (!has_rank(hello.rank))
    refusal.message = rank_text(hello.rank) + " is outside 0.." + std::to_string(size() - 1);
  else if (members_[static_cast<size_t>(hello.rank)].connection >= 0)
    refusal.message = rank_text(hello.rank) + " has arrived twice with the same unique id";
  if (!refusal.message.empty()) {
    sink_(from, kRefused, pack_failure(refusal));
    if (!running_) conclude(refusal, now);  // a running world is not harmed by somebody's old id
    return;
  }
  members_[static_cast<size_t>(hello.rank)].connection = from;
  ranks_[from] = hello.rank;
  const Time deadline = now + seconds(hello.timeout_seconds);
  deadline_ = std::min(deadline, deadline_.value_or(deadline));
  running_ = ++arrived_ == size();
}

bool Coordinator::blob(int rank, const std::string& body) {
  Member& member = members_[static_cast<size_t>(rank)];
  if (member.blob) return false;
  member.blob = body;
  if (!running_) return true;
  for (const Member& other : members_)
    if (!other.blob) return true;
  std::vector<std::string> all;
  for (Member& other : members_) {
    all.push_back(std::move(*other.blob));
    other.blob.reset();
  }
  broadcast(kBlobs, pack_list(all));
  return true;
}

bool Coordinator::report(int rank, const std::string& body, Time now) {
  Failure failure;
  if (!unpack_failure(body, &failure)) return false;
  if (verdict_) return true;
  // A rank's own clock may run out a moment before the deadline that this place keeps for it.
  if (failure.status == SGT_TIMEOUT && !running_)
    refuse_late(now);
  else if (failure.status == SGT_TIMEOUT && owes_blob() >= 0)
    conclude(
        {SGT_TIMEOUT, owes_blob(), rank_text(owes_blob()) + " stopped answering while the world was created"},
        now);
  else if (failure.status == SGT_TIMEOUT && running_)
    start_inquiry(rank, failure, now);
  else
    conclude(failure, now);
  return true;
}

// The lowest rank that an unfinished exchange still lacks, -1 when none is under way.
int Coordinator::owes_blob() const {
  const auto gave = [](const Member& m) { return m.blob.has_value(); };
  if (std::none_of(members_.begin(), members_.end(), gave)) return -1;
  const auto it = std::find_if_not(members_.begin(), members_.end(), gave);
  return it == members_.end() ? -1 : static_cast<int>(it - members_.begin());
}

void Coordinator::start_inquiry(int rank, const Failure& failure, Time now) {
  if (!inquiry_) {
    inquiry_ = Inquiry{rank, now + seconds(kAnswerSeconds), failure.message};
    broadcast(kQuery, "");
  }
  members_[static_cast<size_t>(rank)].waits_for = failure.culprit;
  if (everyone_answered()) inquiry_->until = now;
}

bool Coordinator::waits(int rank, const std::string& body) {
  int32_t whom;
  if (!unpack(body, &whom)) return false;
  members_[static_cast<size_t>(rank)].waits_for = whom;
  if (inquiry_ && everyone_answered()) inquiry_->until = Time{};
  return true;
}

bool Coordinator::everyone_answered() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.waits_for || m.left; });
}

// Follows the chain of waits from the reporter; a rank that waits for nobody, or is silent, ends it.
void Coordinator::settle_inquiry(Time now) {
  int rank = *members_[static_cast<size_t>(inquiry_->reporter)].waits_for;
  for (int steps = 0; steps < size() && has_rank(rank); ++steps) {
    const std::optional<int> next = members_[static_cast<size_t>(rank)].waits_for;
    if (!next || !has_rank(*next)) break;
    rank = *next;
  }
  const std::string words = has_rank(rank) ? rank_text(rank) + " did not take part: " : "";
  conclude({SGT_TIMEOUT, rank, words + inquiry_->words}, now);
}

bool Coordinator::suspect(const std::string& body, Time now) {
  int32_t rank;
  if (!unpack(body, &rank) || !has_rank(rank)) return false;
  if (!verdict_ && !suspicion_ && !members_[static_cast<size_t>(rank)].left)
    suspicion_ = Suspicion{rank, now + seconds(kSuspectSeconds)};
  return true;
}

void Coordinator::leave(int rank) {
  members_[static_cast<size_t>(rank)].left = true;
  const bool all = std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.left; });
  if (all) broadcast(kAllLeft, "");
}

void Coordinator::closed(Connection connection, Time now) {
  const auto it = ranks_.find(connection);
  if (it == ranks_.end()) return;
  const int rank = it->second;
  ranks_.erase(it);
  if (members_[static_cast<size_t>(rank)].left) return;
  conclude({SGT_PEER_DEAD, rank, rank_text(rank) + " died: its process closed the control connection"}, now);
}

void Coordinator::tick(Time now) {
  if (verdict_) return;
  if (suspicion_ && now >= suspicion_->until)
    return conclude(
        {SGT_PEER_DEAD, suspicion_->rank, rank_text(suspicion_->rank) + " died: its endpoint failed"}, now);
  if (inquiry_ && now >= inquiry_->until) settle_inquiry(now);
  if (!running_ && deadline_ && now >= *deadline_) refuse_late(now);
}

void Coordinator::refuse_late(Time now) {
  int first = -1;
  const std::string names = missing(&first);
  conclude({SGT_TIMEOUT, first,
            std::to_string(arrived_) + " of " + std::to_string(size()) +
                " ranks arrived before the deadline; missing: " + names},
           now);
}

std::string Coordinator::missing(int* first) const {
  constexpr int kNamed = 16;
  std::string names;
  int count = 0;
  for (int rank = 0; rank < size(); ++rank) {
    if (members_[static_cast<size_t>(rank)].connection >= 0) continue;
    if (*first < 0) *first = rank;
    if (++count <= kNamed) names += (names.empty() ? "rank " : ", ") + std::to_string(rank);
  }
  if (count > kNamed) names += " and " + std::to_string(count - kNamed) + " more";
  return names;
}

std::optional<Time> Coordinator::next_event() const {
  if (verdict_) return verdict_at_ + seconds(kLateComerSeconds);
  std::optional<Time> next;
  const auto consider = [&next](Time at) { next = std::min(at, next.value_or(at)); };
  if (suspicion_) consider(suspicion_->until);
  if (inquiry_) consider(inquiry_->until);
  if (!running_ && deadline_) consider(*deadline_);
  return next;
}

bool Coordinator::over(Time now) const {
  if (!ranks_.empty()) return false;
  if (running_) return true;
  return verdict_ && now >= verdict_at_ + seconds(kLateComerSeconds);
}

void Coordinator::conclude(Failure verdict, Time now) {
  if (verdict_) return;
  verdict_ = std::move(verdict);
  verdict_at_ = now;
  broadcast(running_ ? kVerdict : kRefused, pack_failure(*verdict_));
}

void Coordinator::broadcast(uint32_t type, const std::string& body) {
  const auto targets = ranks_;  // the sink may close connections
  for (const auto& [connection, rank] : targets) sink_(connection, type, body);
}

}  // namespace stepgate::transport

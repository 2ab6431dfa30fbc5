#include "plugin/core/plane/hub.h"

#include <list>
#include <mutex>

#include "plugin/core/plane/sockets.h"

namespace stepgate::plane {
namespace {

// Rank 0 gives a link up sooner than the others do, so that one of them cannot hold the rest up for long.
constexpr double kShareOfTimeout = 0.4;
constexpr std::size_t kSentences = 16;  // distinct refusals that are said
// For callers, of one tick: a job's ranks call all at once, and the links of those that are in have
// deadlines.
constexpr double kAdmitSeconds = 0.25;

}  // namespace

Hub::Hub(const Seat& seat, const sgt_table& table, Sampler& sampler, Board& board,
         const std::atomic<bool>& stop, Say say)
    : seat_(seat),
      table_(table),
      sampler_(sampler),
      board_(board),
      stop_(stop),
      say_(std::move(say)),
      server_(seat.host, seat.port, seat.key, seat.world) {}

bool Hub::tick(double now) {
  report_own(now);
  bool moved = let_in(now);
  for (auto it = links_.begin(); it != links_.end() && !stop_;) {
    moved = turn(it->first, *it->second, now) || moved;
    it = it->second->usable() ? std::next(it) : links_.erase(it);
  }
  for (const std::string& line : board_.judge(now)) say_(line);
  return moved;
}

// True: more of them wait.
bool Hub::let_in(double now) {
  const double until = steady_seconds() + kAdmitSeconds;
  const auto refuse = [&](const std::string& why) {
    if (refused_.size() < kSentences && refused_.insert(why).second) {
      say_("a caller at the rendezvous was refused: " + why);
    }
  };
  while (server_.poll(
      now, [&](const Hello& hello) { admit(hello); }, refuse)) {
    if (stop_ || steady_seconds() >= until) return true;
  }
  return false;
}

// A rank that calls again has lost its link, whatever this end believes.
void Hub::admit(const Hello& hello) {
  auto link = std::make_unique<Link>(table_, 0, stop_);
  links_.erase(hello.rank);
  if (!link->open(hello.id, seat_.timeout * kShareOfTimeout) || !link->begin(answer_)) {
    board_.lost(hello.rank, link->error());
    return;
  }
  links_[hello.rank] = std::move(link);
}

bool Hub::turn(int rank, Link& link, double now) {
  switch (link.look()) {
    case Turn::kUnderWay: return false;
    case Turn::kBroken: board_.lost(rank, link.error()); return true;
    case Turn::kIdle: break;
    case Turn::kDone: {
      Frame frame = link.theirs();
      frame.rank = rank;  // whatever it says
      board_.take(frame, now);
      if (frame.leaving != 0) {
        link.close();
        return true;
      }
      break;
    }
  }
  if (!link.begin(answer_)) board_.lost(rank, link.error());
  return true;
}

void Hub::report_own(double now) {
  if (now - reported_at_ < kReportSeconds) return;
  reported_at_ = now;
  std::vector<Offender> fresh;
  std::uint64_t lost = 0;
  board_.heard(0, sampler_.sample(&fresh, &lost), now);
  board_.add(fresh, lost);
}

// One at a time: a connection that does not answer takes a second to close, and there may be a thousand.
bool Hub::leave(double) {
  if (!links_.empty()) links_.erase(links_.begin());
  return links_.empty();
}

// Never destroyed, but reachable for leak checkers.
void Hub::forsake() {
  if (links_.empty()) return;
  struct Attic {
    std::mutex mutex;
    std::list<std::map<int, std::unique_ptr<Link>>> links;
  };
  static auto* const attic = new Attic;
  const std::lock_guard lock(attic->mutex);
  attic->links.emplace_back().swap(links_);
}

}  // namespace stepgate::plane

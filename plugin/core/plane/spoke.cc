#include <algorithm>

#include "plugin/core/plane/hub.h"

namespace stepgate::plane {
namespace {

constexpr double kConnectSeconds = 5;  // the kernel asks again after one second and after three
constexpr double kFirstPause = 0.2;    // between two calls
constexpr double kLongestPause = 2;

}  // namespace

Spoke::Spoke(const Seat& seat, const sgt_table& table, Sampler& sampler, const std::atomic<bool>& stop,
             Say say)
    : seat_(seat), table_(table), sampler_(sampler), stop_(stop), say_(std::move(say)) {}

Spoke::~Spoke() {
  link_.reset();
  close_id();
}

void Spoke::close_id() {
  if (id_) table_.unique_id_close(&*id_);
  id_.reset();
}

bool Spoke::tick(double now) {
  if (link_ == nullptr) {
    if (now >= next_call_) call(now);
    return false;
  }
  switch (link_->look()) {
    case Turn::kUnderWay: return true;  // rank 0 answers within its next looks
    case Turn::kBroken: failed(link_->error(), now); return false;
    case Turn::kDone:
      if (goodbye_) {
        link_.reset();
        return true;
      }
      next_report_ = leaving_ || waiting_.size() > 0 ? now : now + kReportSeconds;
      break;
    case Turn::kIdle: break;
  }
  if (now < next_report_) return false;
  if (!link_->begin(report())) failed(link_->error(), now);
  return true;
}

Frame Spoke::report() {
  std::vector<Offender> fresh;
  Frame frame;
  frame.rank = seat_.rank;
  frame.figures = sampler_.sample(&fresh, &lost_);
  for (const Offender& o : fresh) waiting_.add(o);
  frame.offenders = waiting_.take(frame.offender.data(), kFrameOffenders);
  frame.offenders_lost = lost_ + waiting_.lost();
  goodbye_ = leaving_ && waiting_.size() == 0;
  frame.leaving = goodbye_ ? 1 : 0;
  frame.turn = ++turns_;
  return frame;
}

void Spoke::call(double now) {
  RendezvousCall call(stop_);
  std::string why;
  if (!meet(call, &why)) return failed(why, now);
  pause_ = 0;
  without_since_ = -1;
  said_ = false;
  next_report_ = 0;
}

// The id stays for the next call until somebody may have met there: each opens a listener of its own.
bool Spoke::meet(RendezvousCall& call, std::string* why) {
  if (!call.connect(seat_.host, seat_.port, kConnectSeconds, why)) return false;
  const std::string address = call.local_address();
  if (!id_ || address != id_address_) {
    close_id();
    sgt_unique_id id{};
    sgt_error error{};
    if (table_.unique_id_at(address.c_str(), &id, &error) != SGT_OK) {
      *why = error.message;
      return false;
    }
    id_ = id;
    id_address_ = address;
  }
  bool refused = false;
  const Hello hello = make_hello(seat_.key, seat_.rank, seat_.world, *id_);
  if (!call.ask(hello, answer_seconds(seat_.world), &refused, why)) {
    if (refused) without_since_ = 0;  // no reason to wait with the sentence
    return false;
  }
  auto link = std::make_unique<Link>(table_, 1, stop_);
  const sgt_unique_id id = *id_;
  id_.reset();
  if (!link->open(id, seat_.timeout)) {
    *why = link->error();
    return false;
  }
  link_ = std::move(link);
  return true;
}

// Said once, after as long as a rank may be down unnoticed: rank 0 may start later than this one.
void Spoke::failed(const std::string& why, double now) {
  link_.reset();
  pause_ = std::clamp(pause_ * 2, kFirstPause, kLongestPause);
  next_call_ = now + pause_;
  if (without_since_ < 0) without_since_ = now;
  if (said_ || now - without_since_ < seat_.timeout) return;
  said_ = true;
  say_("the plane does not reach rank 0: " + why + "; it goes on trying, the job is not affected");
}

// The last frames: what waits, then the goodbye. They are given up with the link.
bool Spoke::leave(double now) {
  if (link_ == nullptr) return true;
  if (!leaving_) next_report_ = now;
  leaving_ = true;
  tick(now);
  return link_ == nullptr;
}

}  // namespace stepgate::plane

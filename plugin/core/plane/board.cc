#include "plugin/core/plane/board.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "plugin/core/label_text.h"

namespace stepgate::plane {
namespace {

// A peer's text may lack its end, and be cut within a character.
template <std::size_t N>
void make_text(char (&text)[N]) {
  text[N - 1] = '\0';
  gate::make_label_text(text, std::strlen(text));
}

std::string sentence(const Silence& s) {
  std::string text =
      "rank " + std::to_string(s.rank) + " is silent: for " + std::to_string(std::lround(s.seconds)) + " s ";
  if (s.up) {
    text +=
        "its process answers, but it has not come to the exchange of step " + std::to_string(s.reached + 1);
  } else {
    text += "nothing was heard from it; the last exchange that it came to is that of step " +
            std::to_string(s.reached);
  }
  if (s.others > s.reached) text += "; the others are at step " + std::to_string(s.others);
  if (!s.why.empty()) text += " (" + s.why + ")";
  return text;
}

}  // namespace

void Board::heard(int rank, const Figures& figures, double now) {
  const std::lock_guard lock(mutex_);
  roll_.heard(rank, figures, now);
}

void Board::take(const Frame& frame, double now) {
  const std::lock_guard lock(mutex_);
  const auto rank = static_cast<std::size_t>(frame.rank);
  if (lost_of_.size() <= rank) lost_of_.resize(rank + 1);
  lost_of_[rank] = frame.offenders_lost;
  for (std::size_t i = 0; i < std::min<std::size_t>(frame.offenders, kFrameOffenders); ++i) {
    Offender o = frame.offender[i];
    o.rank = frame.rank;
    make_text(o.gate);
    make_text(o.range);
    make_text(o.parameter);
    book_.add(o);
  }
  roll_.heard(frame.rank, frame.figures, now);
  if (frame.leaving != 0) roll_.left(frame.rank, now);
}

void Board::add(const std::vector<Offender>& offenders, std::uint64_t lost) {
  const std::lock_guard lock(mutex_);
  if (lost_of_.empty()) lost_of_.resize(1);
  lost_of_[0] += lost;
  for (const Offender& o : offenders) book_.add(o);
}

void Board::lost(int rank, const std::string& why) {
  const std::lock_guard lock(mutex_);
  roll_.lost(rank, why);
}

void Board::left(int rank, double now) {
  const std::lock_guard lock(mutex_);
  roll_.left(rank, now);
}

std::vector<std::string> Board::judge(double now) {
  std::vector<Silence> found;
  std::vector<std::string> lines;
  const std::lock_guard lock(mutex_);
  roll_.judge(now, &found);
  judged_at_ = now;
  silences_ += found.size();
  for (const Silence& s : found) {
    metrics::Anomaly a;
    a.kind = metrics::AnomalyKind::kSilentRank;
    a.step = s.reached;
    a.rank = s.rank;
    a.value = s.seconds;
    anomalies_.push_back(a);
    lines.push_back(sentence(s));
  }
  return lines;
}

void Board::read(metrics::JobView* view) {
  const std::lock_guard lock(mutex_);
  roll_.fill(judged_at_, view);
  view->silences = silences_;
  view->offenders_lost = std::accumulate(lost_of_.begin(), lost_of_.end(), book_.lost());
}

void Board::take_anomalies(std::vector<metrics::Anomaly>* found) {
  const std::lock_guard lock(mutex_);
  found->insert(found->end(), anomalies_.begin(), anomalies_.end());
  anomalies_.clear();
}

std::vector<Offender> Board::offenders(const std::string& gate, std::uint64_t step) const {
  const std::lock_guard lock(mutex_);
  return book_.of_step(gate, step);
}

}  // namespace stepgate::plane

#include "collectives/ucx/control.h"

#include <poll.h>

namespace stepgate::transport {
namespace {

// The coordinator judges first, by the earliest deadline of all ranks; only if it is silent do we.
constexpr double kSlackSeconds = 1.5;
constexpr int kLookMs = 20;  // how late a cancelled creation is noticed

Fd connect_by(const IdLayout& id, Deadline deadline) {
  return connect_to(in_addr{id.address}, id.port, deadline);
}

std::string text_of(double s) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", s);
  return text;
}

}  // namespace

Control::Control(const IdLayout& id, int rank, int size, double timeout_seconds, double arrive_seconds,
                 std::function<bool()> cancelled)
    : rank_(rank),
      size_(size),
      timeout_seconds_(timeout_seconds),
      cancelled_(std::move(cancelled)),
      deadline_(Deadline::after((arrive_seconds > 0 ? arrive_seconds : timeout_seconds) + kSlackSeconds)),
      socket_(Fd()) {
  Fd fd = connect_by(id, deadline_);
  local_ = stepgate::transport::local_address(fd);
  socket_ = FrameSocket(std::move(fd));
  socket_.accept_frames_up_to(kLongestFrame);
  socket_.send(kHello, pack(Hello{id.key, kProtocolVersion, rank, size, timeout_seconds}));
}

std::vector<std::string> Control::exchange(const std::string& mine) {
  socket_.send(kBlob, mine);
  bool complained = false;
  for (;;) {
    const bool open = socket_.fill();
    while (const auto frame = socket_.next())
      if (frame->type != kQuery) return accept_blobs(*frame);
    if (!open)
      throw TurnedAway(SGT_SYSTEM, "the rendezvous closed the connection before the world was complete");
    if (!complained && overdue()) {
      complained = true;
      report({SGT_TIMEOUT, -1, "the world was not complete within " + text_of(timeout_seconds_)});
    }
    if (deadline_.passed()) give_up();
    if (cancelled_ && cancelled_()) give_way();
    socket_.flush();
    pollfd ready{fd(), static_cast<short>(POLLIN | (socket_.wants_write() ? POLLOUT : 0)), 0};
    ::poll(&ready, 1, deadline_.milliseconds(cancelled_ ? kLookMs : 200));
  }
}

std::vector<std::string> Control::accept_blobs(const Frame& frame) {
  Failure refusal;
  if ((frame.type == kRefused || frame.type == kVerdict) && unpack_failure(frame.body, &refusal))
    throw Error(refusal);
  std::vector<std::string> blobs;
  if (frame.type != kBlobs || !unpack_list(frame.body, &blobs) || blobs.size() != static_cast<size_t>(size_))
    throw Error(SGT_SYSTEM, "the rendezvous answered with frame type " + std::to_string(frame.type) +
                                " where everybody's addresses were expected");
  return blobs;
}

bool Control::overdue() const {
  return Clock::now() >= deadline_.at() - seconds(kSlackSeconds);
}

void Control::give_way() {
  const Failure failure{SGT_ABORTED, rank_,
                        "rank " + std::to_string(rank_) + " gave up while the world was created"};
  report(failure);
  throw Error(failure);
}

void Control::give_up() {
  throw Error(SGT_TIMEOUT, "the rendezvous did not answer within " + text_of(timeout_seconds_));
}

Control::Event Control::poll(Failure* verdict) {
  if (lost_ || !socket_.open()) return Event::kNone;
  socket_.flush();
  const bool open = socket_.fill();
  while (const auto frame = socket_.next()) {
    if (frame->type == kQuery) return Event::kQuery;
    if (frame->type == kAllLeft) return Event::kAllLeft;
    if (frame->type == kVerdict && unpack_failure(frame->body, verdict)) return Event::kVerdict;
  }
  if (open) return Event::kNone;
  lost_ = true;
  return Event::kLost;
}

}  // namespace stepgate::transport

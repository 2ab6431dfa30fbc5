#include "plugin/core/plane/link.h"

namespace stepgate::plane {

bool Link::open(const sgt_unique_id& id, double seconds) {
  sgt_options options{};
  options.size = sizeof options;
  options.timeout_seconds = seconds;
  // Of two ranks on one machine too: shared memory is pinned per world and outlives a killed rank.
  options.transports = "tcp";
  options.cancelled = [](void* stop) { return static_cast<std::atomic<bool>*>(stop)->load() ? 1 : 0; };
  options.context = const_cast<std::atomic<bool>*>(&stop_);
  sgt_error error{};
  if (table_.world_create(&id, at_, 2, &options, &world_, &error) == SGT_OK) return true;
  world_ = nullptr;
  fail(error);
  return false;
}

// An aborted world closes without waiting for the other end, and takes the turn under way with it.
void Link::close() {
  if (world_ == nullptr) return;
  if (turn_ != nullptr) table_.world_abort(world_);
  if (turn_ != nullptr) table_.op_release(turn_);
  turn_ = nullptr;
  table_.world_abort(world_);
  table_.world_destroy(world_);
  world_ = nullptr;
}

bool Link::begin(const Frame& mine) {
  if (world_ == nullptr || turn_ != nullptr) return false;
  Frame& place = (*both_)[static_cast<std::size_t>(at_)];
  place = mine;
  sgt_error error{};
  if (table_.allgather(world_, &place, both_->data(), sizeof(Frame), SGT_UINT8, &turn_, &error) == SGT_OK) {
    return true;
  }
  turn_ = nullptr;
  fail(error);
  return false;
}

Turn Link::look() {
  if (world_ == nullptr) return Turn::kBroken;
  if (turn_ == nullptr) return Turn::kIdle;
  sgt_error error{};
  const sgt_status status = table_.op_progress(turn_, &error);
  if (status == SGT_IN_PROGRESS) return Turn::kUnderWay;
  if (status != SGT_OK) {
    fail(error);
    return Turn::kBroken;
  }
  table_.op_release(turn_);
  turn_ = nullptr;
  if (theirs().magic == kFrameMagic && theirs().offenders <= kFrameOffenders) return Turn::kDone;
  error_ = "the other rank runs another build";
  close();
  return Turn::kBroken;
}

void Link::fail(const sgt_error& error) {
  error_ = error.message;
  close();
}

}  // namespace stepgate::plane

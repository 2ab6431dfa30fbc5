#include "collectives/ucx/operation.h"

namespace stepgate::transport {

Operation::Operation(World& world, Fabric& fabric, FramePool& frames, int rank, Numbering numbering,
                     const Plan& plan)
    : world_(world), fabric_(fabric), frames_(frames), rank_(rank), numbering_(numbering), plan_(plan) {}

void Operation::restart(Numbering numbering, const Plan& plan) {
  numbering_ = numbering;
  plan_ = plan;
  next_ = 0;
  moves_ = 0;
  moves_seen = kNeverSeen;
}

bool Operation::advance() {
  if (failure_.status != SGT_OK) return false;
  const uint64_t before = moves_;
  try {
    while (next_ < plan_.strands && running_.size() < plan_.window) launch();
    for (auto it = running_.begin(); it != running_.end() && failure_.status == SGT_OK;) {
      if (!step(**it)) {
        ++it;
        continue;
      }
      (*it)->strand.reset();
      spare_ = std::move(*it);
      it = running_.erase(it);
    }
  } catch (
      const std::exception& error) {  // a buffer could not be had: the peers wait in vain, so all must know
    failure_ = {SGT_SYSTEM, rank_, error.what()};
  }
  return moves_ != before;
}

void Operation::launch() {
  if (spare_)
    spare_->lane.restart(numbering_, next_);
  else
    spare_ = std::make_unique<Running>(Running{Lane(fabric_, frames_, rank_, numbering_, next_), {}});
  running_.push_back(std::move(spare_));
  Running& running = *running_.back();
  running.strand.emplace(plan_.start(running.lane, next_++));
}

// True when the strand is done.
bool Operation::step(Running& running) {
  while (running.lane.settle() && running.lane.failure().status == SGT_OK && !running.strand->done()) {
    running.strand->resume();
    ++moves_;
    if (!running.lane.idle() || running.lane.end_rest()) return false;
  }
  if (running.lane.failure().status != SGT_OK) {
    failure_ = running.lane.failure();
    broken_peer_ = running.lane.broken_peer();
    return false;
  }
  return running.lane.idle() && running.strand->done();
}

int Operation::waits_for() const {
  for (const auto& running : running_)
    if (const int peer = running->lane.waits_for(); peer >= 0) return peer;
  return -1;
}

void Operation::cancel() {
  for (const auto& running : running_) running->lane.cancel();
}

bool Operation::settled() {
  bool all = true;
  for (const auto& running : running_) all = running->lane.settle() && all;
  return all;
}

}  // namespace stepgate::transport

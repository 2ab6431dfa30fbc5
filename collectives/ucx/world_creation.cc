// How a world comes about: the ranks meet, open their fabric, and prove that data passes. The rest of a
// world's life stands in world.cc.
#include "collectives/ucx/backoff.h"
#include "collectives/ucx/meeting.h"
#include "collectives/ucx/world.h"

namespace stepgate::transport {
namespace {

constexpr int kWiredAtOnce = 16;  // largest world of which all pairs meet at creation

std::string name_of_rank(int rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace

World::World(const IdLayout& id, int rank, int size, const Options& options)
    : place_{rank, size},
      timeout_seconds_(options.timeout_seconds),
      wake_(make_event()),
      control_(id, rank, size, options.timeout_seconds, options.arrive_seconds, options.cancelled),
      door_(options.interface.empty() ? control_.local_address() : resolve_local(options.interface)),
      sent_to_(static_cast<size_t>(size)),
      received_from_(static_cast<size_t>(size)) {
  open_fabric(id, options);
  try {
    warm_up();
  } catch (...) {  // no destructor runs, but the worker may not be at rest
    const std::lock_guard lock(mutex_);
    close();
    throw;
  }
}

// A rank that cannot open its fabric says so: the others would wait for it.
void World::open_fabric(const IdLayout& id, const Options& options) {
  const Meeting meeting = meet(control_, id, place_, options, door_.id());
  doors_ = meeting.doors;
  coordinator_rank_ = meeting.coordinator_rank;
  may_spin_ = meeting.ranks_here <= usable_cores();
  try {
    fabric_ = std::make_unique<Fabric>(meeting.fabric);
    const bool mails = meeting.fabric.shared_memory && place_.size > 1 && place_.size <= Mailbox::kMostRanks;
    if (mails) mailbox_ = std::make_unique<Mailbox>(place_);
    const Mailbox::Card card = mails ? mailbox_->card() : Mailbox::Card{};
    introduce(control_.exchange(pack_list({fabric_->address(), pack(memory_.card()), pack(card)})),
              meeting.fabric.shared_memory);
  } catch (const Error& error) {
    const Failure& failure = error.failure();
    control_.report({failure.status, failure.culprit < 0 ? place_.rank : failure.culprit,
                     name_of_rank(place_.rank) + ": " + failure.message});
    throw;
  }
}

void World::introduce(const std::vector<std::string>& blobs, bool one_host) {
  std::vector<std::string> addresses;
  std::vector<PeerMemory::Card> cards(blobs.size());
  std::vector<Mailbox::Card> mail(blobs.size());
  for (size_t rank = 0; rank < blobs.size(); ++rank) {
    std::vector<std::string> parts;
    if (!unpack_list(blobs[rank], &parts) || parts.size() != 3 || !unpack(parts[1], &cards[rank]) ||
        !unpack(parts[2], &mail[rank]))
      throw Error(SGT_SYSTEM, name_of_rank(static_cast<int>(rank)) + " gave its address in an unknown form");
    addresses.push_back(std::move(parts[0]));
  }
  fabric_->set_peers(std::move(addresses));
  reads_peers_ = one_host && place_.size <= kWiredAtOnce && memory_.introduce(std::move(cards));
  if (mailbox_ != nullptr && !mailbox_->attach(mail)) mailbox_.reset();
}

void World::finish(Operation* proof) {
  Failure failure;
  if (wait(*proof, &failure) != SGT_OK) throw Error(failure);
  release(proof);
}

// Wires endpoints and proves that data passes, so that a bad network shows at creation. What UCX has to say
// to wire them has been said and answered when every rank has flushed: see Fabric::close_endpoints.
void World::warm_up() {
  const auto ranks = static_cast<size_t>(place_.size);
  const bool few = place_.size <= kWiredAtOnce;
  std::vector<char> tokens(few ? 2 * ranks : 0);
  finish(few ? alltoall(tokens.data(), tokens.data() + ranks, 1, SGT_INT8) : barrier());
  {
    const std::lock_guard lock(mutex_);
    flush();
  }
  agree_on_shortcuts();
}

// A flush takes its peers' progress, so all wait for all; and all must choose the same algorithms. The box of
// this exchange is not used before everybody has it.
void World::agree_on_shortcuts() {
  std::unique_ptr<Mailbox> box = std::move(mailbox_);
  const int32_t mine[] = {reads_peers_ ? 1 : 0, box != nullptr ? 1 : 0};
  int32_t everybody[2] = {};
  finish(allreduce(mine, everybody, 2, SGT_INT32, SGT_MIN));
  reads_peers_ = everybody[0] == 1;
  if (everybody[1] != 1) return;
  mailbox_ = std::move(box);
  mailbox_->all_attached();
}

}  // namespace stepgate::transport

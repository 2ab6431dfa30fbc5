#include <string>

#include "collectives/ucx/mailbox.h"
#include "collectives/ucx/strand.h"

namespace stepgate::transport {
namespace {

bool means_dead(ucs_status_t status) {
  return status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_ENDPOINT_TIMEOUT ||
         status == UCS_ERR_UNREACHABLE || status == UCS_ERR_NOT_CONNECTED || status == UCS_ERR_REJECTED ||
         status == UCS_ERR_CANCELED;
}

}  // namespace

void Lane::send(int to, const void* data, size_t bytes, uint32_t step) {
  posted_.push_back({fabric_.send(to, data, bytes, tag(tag_, step, rank_)), to, false, bytes});
}

void Lane::receive(int from, void* data, size_t bytes, uint32_t step) {
  posted_.push_back({fabric_.receive(from, data, bytes, tag(tag_, step, from)), from, true, bytes});
}

bool Lane::finished(Posted& posted) {
  const bool done = posted.receiving ? posted.request.done_receiving() : posted.request.done_sending();
  if (done) judge(posted);
  return done;
}

void Lane::judge(const Posted& posted) {
  const ucs_status_t status = posted.request.status();
  if (status == UCS_OK && (!posted.receiving || posted.request.length() == posted.bytes)) return;
  if (failure_.status != SGT_OK) return;
  const std::string peer = "rank " + std::to_string(posted.peer);
  if (status == UCS_ERR_MESSAGE_TRUNCATED ||
      (status == UCS_OK && posted.receiving && posted.request.length() != posted.bytes)) {
    failure_ = {SGT_SYSTEM, posted.peer,
                peer + " sent a message that is not the expected " + std::to_string(posted.bytes) +
                    " bytes, but " + std::to_string(posted.request.length()) +
                    ": do the ranks agree on operation, type and count?"};
  } else if (means_dead(status)) {
    broken_peer_ = posted.peer;
    failure_ = {SGT_PEER_DEAD, posted.peer, peer + " died: " + ucs_status_string(status)};
  } else if (status != UCS_OK) {
    // What UCX says depends on where it was when the peer went: wiring up to a process that has just died
    // is a "Shared memory error". So this too waits for a word about the peer.
    broken_peer_ = posted.peer;
    failure_ = {SGT_SYSTEM, posted.peer, "message with " + peer + " failed: " + ucs_status_string(status)};
  }
}

bool Lane::settle() {
  std::erase_if(posted_, [this](Posted& posted) { return finished(posted); });
  if (mail_.box != nullptr && mail_is_here()) mail_.box = nullptr;
  return idle();
}

bool Lane::mail_is_here() {
  return mail_.letters ? mail_.box->arrived() : mail_.box->turn(mail_.ticket);
}

void Lane::cancel() {
  mail_.box = nullptr;
  for (Posted& posted : posted_)
    if (posted.receiving) posted.request.cancel(fabric_.worker());
}

int Lane::waits_for() const {
  for (const Posted& posted : posted_)
    if (posted.receiving) return posted.peer;
  if (mail_.box != nullptr && mail_.letters) return mail_.box->missing();
  return posted_.empty() ? -1 : posted_.front().peer;
}

}  // namespace stepgate::transport

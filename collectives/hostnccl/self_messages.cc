#include "collectives/hostnccl/self_messages.h"

#include <cstring>
#include <deque>
#include <map>
#include <string>

namespace stepgate::hostnccl {
namespace {

std::size_t bytes_of(const Request& request) {
  return request.count * element_bytes(request.type);
}

// The unmatched ones of one communicator; all of one kind.
using Open = std::deque<const Call*>;

// Calls use(send, receive) for each pair; what stays unmatched is the result.
template <typename Use>
std::map<const Communicator*, Open> match(const std::vector<Call>& calls, Use use) {
  std::map<const Communicator*, Open> open;
  for (const Call& call : calls) {
    if (!is_self_message(call)) continue;
    Open& others = open[call.comm.get()];
    if (others.empty() || others.front()->request.kind == call.request.kind) {
      others.push_back(&call);
      continue;
    }
    const bool sends = call.request.kind == Collective::kSend;
    use(sends ? call : *others.front(), sends ? *others.front() : call);
    others.pop_front();
  }
  return open;
}

}  // namespace

bool is_self_message(const Call& call) noexcept {
  const Collective kind = call.request.kind;
  return (kind == Collective::kSend || kind == Collective::kRecv) && call.request.root == call.comm->rank();
}

Outcome check_self_messages(const std::vector<Call>& calls) {
  Outcome outcome;
  const auto open = match(calls, [&](const Call& send, const Call& receive) {
    const std::size_t sent = bytes_of(send.request), wanted = bytes_of(receive.request);
    if (sent == wanted || !outcome.ok()) return;
    outcome = invalid_argument("ncclSend of " + std::to_string(sent) +
                               " bytes to the own rank meets an ncclRecv of " + std::to_string(wanted) +
                               "; allowed: the same");
  });
  for (const auto& [comm, left] : open) {
    if (left.empty()) continue;
    const bool sends = left.front()->request.kind == Collective::kSend;
    return invalid_usage(sends ? "ncclSend to the own rank without a matching ncclRecv in the same group"
                               : "ncclRecv from the own rank without a matching ncclSend in the same group");
  }
  return outcome;
}

void copy_self_messages(const std::vector<Call>& calls) {
  match(calls, [](const Call& send, const Call& receive) {
    if (send.comm->usable().ok())
      std::memmove(receive.request.recv, send.request.send, bytes_of(send.request));
  });
}

}  // namespace stepgate::hostnccl

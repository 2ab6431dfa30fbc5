#include "collectives/ucx/door.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "collectives/ucx/host_identity.h"

namespace stepgate::transport {
namespace {

Key random_key() {
  Key key;
  if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size()))
    throw Error(SGT_SYSTEM, "the kernel gives no random bytes for the unique id");
  return key;
}

// Two ranks whose lists differ must not meet; nobody attacks who does not know the door's key.
uint64_t mix(uint64_t state, uint64_t value) {
  state = (state ^ value) * 0x9e3779b97f4a7c15u;
  state = (state ^ (state >> 29)) * 0xbf58476d1ce4e5b9u;
  return state ^ (state >> 32);
}

}  // namespace

IdLayout make_id(in_addr address, uint16_t port) {
  IdLayout id{};
  std::memcpy(id.magic, kMagic, sizeof kMagic);
  id.version = kProtocolVersion;
  id.address = address.s_addr;
  id.port = port;
  id.process = static_cast<uint32_t>(getpid());
  id.key = random_key();
  host_identity().copy(id.host, sizeof id.host - 1);
  return id;
}

Door::Door(in_addr address) {
  uint16_t port = 0;
  listener_ = listen_on(address, &port);
  id_ = make_id(address, port);
}

Fd Door::copy() const {
  Fd copy(fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.open()) throw Error(SGT_SYSTEM, "cannot copy a listening socket: no descriptor is free");
  return copy;
}

IdLayout subset_id(const IdLayout& door, const std::vector<int>& members) {
  uint64_t halves[2];
  static_assert(sizeof halves == sizeof door.key);
  std::memcpy(halves, door.key.data(), sizeof halves);
  for (const int rank : members) {
    halves[0] = mix(halves[0], static_cast<uint64_t>(rank));
    halves[1] = mix(halves[1], halves[0]);
  }
  IdLayout id = door;
  std::memcpy(id.key.data(), halves, sizeof halves);
  return id;
}

}  // namespace stepgate::transport

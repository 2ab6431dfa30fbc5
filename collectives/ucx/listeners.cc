#include "collectives/ucx/listeners.h"

#include <unistd.h>

#include <algorithm>

namespace stepgate::transport {

IdLayout Listeners::open(const std::string& address_or_device) {
  auto server = std::make_unique<RendezvousServer>(address_or_device);
  const IdLayout id = server->id();
  const std::lock_guard lock(mutex_);
  const pid_t here = getpid();
  std::erase_if(entries_,
                [here](const Entry& e) { return e.owner == here && e.worlds == 0 && e.server->finished(); });
  entries_.push_back({id.key, here, 0, std::move(server)});
  return id;
}

void Listeners::retain(const Key& key) {
  const std::lock_guard lock(mutex_);
  if (Entry* entry = find(key)) ++entry->worlds;
}

void Listeners::release(const Key& key) {
  std::unique_ptr<RendezvousServer> last;  // joined after the lock is gone
  const std::lock_guard lock(mutex_);
  Entry* entry = find(key);
  if (entry == nullptr || --entry->worlds > 0) return;
  last = std::move(entry->server);
  entries_.erase(entries_.begin() + (entry - entries_.data()));
}

Listeners::Entry* Listeners::find(const Key& key) {
  const auto mine = [&key, here = getpid()](const Entry& e) { return e.key == key && e.owner == here; };
  const auto it = std::find_if(entries_.begin(), entries_.end(), mine);
  return it == entries_.end() ? nullptr : &*it;
}

}  // namespace stepgate::transport

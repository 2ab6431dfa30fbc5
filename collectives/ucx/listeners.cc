#include "collectives/ucx/listeners.h"

#include <unistd.h>

#include <algorithm>

namespace stepgate::transport {

// Every server is destroyed, which joins its thread, after the lock is gone: hence the order of the locals.

IdLayout Listeners::open(const std::string& address_or_device) {
  auto server = std::make_unique<RendezvousServer>(address_or_device);
  const IdLayout id = server->id();
  std::vector<Server> ended;
  const std::lock_guard lock(mutex_);
  ended = take([](const Entry& e) { return e.worlds == 0 && e.server->finished(); });
  entries_.push_back({id.key, 0, getpid(), 0, std::move(server)});
  return id;
}

uint64_t Listeners::open_at(Fd door, const IdLayout& id) {
  close(id.key);  // before the next one listens there
  auto server = std::make_unique<RendezvousServer>(std::move(door), id);
  std::vector<Server> ended;
  const std::lock_guard lock(mutex_);
  ended = take([](const Entry& e) { return e.worlds == 0 && e.server->finished(); });
  entries_.push_back({id.key, ++last_number_, getpid(), 0, std::move(server)});
  return last_number_;
}

void Listeners::close(const Key& key) {
  std::vector<Server> unused;
  const std::lock_guard lock(mutex_);
  unused = take([&key](const Entry& e) { return e.worlds == 0 && e.key == key; });
}

void Listeners::retain(const Key& key) {
  const std::lock_guard lock(mutex_);
  if (Entry* entry = find([&key](const Entry& e) { return e.number == 0 && e.key == key; })) ++entry->worlds;
}

void Listeners::retain(uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (number == 0) return;
  if (Entry* entry = find([number](const Entry& e) { return e.number == number; })) ++entry->worlds;
}

void Listeners::release(const Key& key) {
  Server last;
  const std::lock_guard lock(mutex_);
  last = released(find([&key](const Entry& e) { return e.number == 0 && e.key == key; }));
}

void Listeners::release(uint64_t number) {
  Server last;
  const std::lock_guard lock(mutex_);
  last = released(find([number](const Entry& e) { return e.number == number; }));
}

template <typename Is>
Listeners::Entry* Listeners::find(Is is) {
  const auto mine = [&is, here = getpid()](const Entry& e) { return e.owner == here && is(e); };
  const auto it = std::find_if(entries_.begin(), entries_.end(), mine);
  return it == entries_.end() ? nullptr : &*it;
}

template <typename Is>
std::vector<Listeners::Server> Listeners::take(Is is) {
  std::vector<Server> taken;
  while (Entry* entry = find(is)) {
    taken.push_back(std::move(entry->server));
    entries_.erase(entries_.begin() + (entry - entries_.data()));
  }
  return taken;
}

Listeners::Server Listeners::released(Entry* entry) {
  if (entry == nullptr || --entry->worlds > 0) return nullptr;
  Server last = std::move(entry->server);
  entries_.erase(entries_.begin() + (entry - entries_.data()));
  return last;
}

}  // namespace stepgate::transport

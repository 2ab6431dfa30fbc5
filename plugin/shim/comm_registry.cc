#include "plugin/shim/comm_registry.h"

#include <link.h>

#include <atomic>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace stepgate::shim {
namespace {

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<ncclComm_t, CommEntry> entries;
  std::unordered_set<std::string> names;  // never shrinks: addresses are handed out
  std::set<survey::Address> hooked;       // copies' dynamic sections; stays when the communicators have gone
  std::atomic<int> expected{0};
};

// Never destroyed: hooks may run while the process exits.
Registry& registry() {
  static Registry* const all = new Registry;
  return *all;
}

survey::Address dynamic_of(const NcclCopy& copy) {
  return reinterpret_cast<survey::Address>(static_cast<const link_map*>(copy.object)->l_ld);
}

void insert(ncclComm_t comm, const CommEntry& entry) noexcept {
  if (comm == nullptr) return;
  try {
    const std::unique_lock lock(registry().mutex);
    registry().entries[comm] = entry;
    if (entry.hooked && entry.copy != nullptr) registry().hooked.insert(dynamic_of(*entry.copy));
  } catch (...) {
    // Out of memory: the communicator is looked up by its callers instead.
  }
}

}  // namespace

void remember_comm(ncclComm_t comm, const NcclCopy* copy) noexcept {
  insert(comm, {.copy = copy, .world = 0, .hooked = true});
}

bool remembered_of(survey::Address dynamic) noexcept {
  const std::shared_lock lock(registry().mutex);
  return registry().hooked.contains(dynamic);
}

void remember_unhooked(ncclComm_t comm, const NcclCopy* copy, survey::Cause cause) noexcept {
  insert(comm, {.copy = copy, .world = 0, .hooked = false, .cause = cause});
}

void set_comm_world(ncclComm_t comm, int world) noexcept {
  const std::unique_lock lock(registry().mutex);
  const auto it = registry().entries.find(comm);
  if (it != registry().entries.end()) it->second.world = world;
}

void set_comm_name(ncclComm_t comm, const char* name) noexcept {
  const std::unique_lock lock(registry().mutex);
  const auto it = registry().entries.find(comm);
  if (it != registry().entries.end()) it->second.name = name;
}

const char* kept_name(const char* name) noexcept {
  if (name == nullptr) return nullptr;
  try {
    const std::unique_lock lock(registry().mutex);
    return registry().names.emplace(name).first->c_str();
  } catch (...) {
    return nullptr;
  }
}

CommEntry find_comm(ncclComm_t comm) noexcept {
  const std::shared_lock lock(registry().mutex);
  const auto it = registry().entries.find(comm);
  return it != registry().entries.end() ? it->second : CommEntry{};
}

void forget_comm(ncclComm_t comm) noexcept {
  insert(comm, {.copy = nullptr, .world = 0, .hooked = true});
}

void expect_comm() noexcept {
  ++registry().expected;
}

bool take_expected_comm() noexcept {
  int left = registry().expected;
  while (left > 0 && !registry().expected.compare_exchange_weak(left, left - 1)) continue;
  return left > 0;
}

}  // namespace stepgate::shim

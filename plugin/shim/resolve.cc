#include "plugin/shim/resolve.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>

#include "plugin/shim/guard.h"
#include "plugin/shim/misses.h"

namespace stepgate::shim {
namespace {

const link_map* object_at(const void* address) {
  Dl_info info{};
  void* extra = nullptr;
  if (dladdr1(address, &info, &extra, RTLD_DL_LINKMAP) == 0) return nullptr;
  return static_cast<const link_map*>(extra);
}

// A handle on an object that is loaded already; never loads anything. The main program has no name.
void* handle_of(const link_map* object) {
  if (object == nullptr) return nullptr;
  if (object->l_name == nullptr || object->l_name[0] == '\0') return dlopen(nullptr, RTLD_LAZY);
  return dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD);
}

const link_map* own_object() {
  static const link_map* const own = object_at(reinterpret_cast<const void*>(&object_at));
  return own;
}

// "pncclX", else "ncclX" where that is not the hook itself.
void* find_symbol(void* handle, const char* strong) {
  if (handle == nullptr) return nullptr;
  if (void* found = dlsym(handle, strong)) return found;
  void* weak = dlsym(handle, strong + 1);
  return weak != nullptr && object_at(weak) != own_object() ? weak : nullptr;
}

constexpr char kProbe[] = "pncclGetVersion";

// Where an NCCL lives that `caller` can mean; nullptr when nowhere.
const link_map* find_nccl(const void* caller) {
  if (void* found = find_symbol(handle_of(object_at(caller)), kProbe)) return object_at(found);
  if (void* found = find_symbol(dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD), kProbe))
    return object_at(found);
  return object_at(dlsym(RTLD_NEXT, kProbe + 1));
}

template <class F>
void fill(F*& pointer, void* handle, const char* strong) {
  pointer = reinterpret_cast<F*>(find_symbol(handle, strong));
}

void fill_copy(NcclCopy& copy, void* handle) {
#define STEPGATE_FILL(name, result, parameters) fill(copy.functions.name, handle, "pnccl" #name);
  STEPGATE_NCCL_FUNCTIONS(STEPGATE_FILL)
#undef STEPGATE_FILL
  const NcclFunctions& f = copy.functions;
  copy.table = {f.GetVersion, f.CommCount,      f.CommUserRank, f.CommGetAsyncError,
                f.AllReduce,  f.GetErrorString, f.GetLastError};
}

// Copies found so far, by the object they live in.
class Copies {
 public:
  const NcclCopy* of(const link_map* object) {
    const std::lock_guard lock(mutex_);
    for (const Known& k : known_) {
      if (k.object == object) return &k.copy;
    }
    void* handle = handle_of(object);
    if (handle == nullptr) return nullptr;
    Known& k = known_.emplace_back();
    k.object = object;
    fill_copy(k.copy, handle);
    k.copy.object = object;
    return &k.copy;
  }

 private:
  struct Known {
    const link_map* object = nullptr;
    NcclCopy copy;
  };
  std::mutex mutex_;
  std::list<Known> known_;
};

// Never destroyed: hooks may run while the process exits.
Copies& copies() {
  static Copies* const all = new Copies;
  return *all;
}

// Call sites seen so far. An entry is written once; a full table only means a slower call.
struct Site {
  std::atomic<const void*> caller{nullptr};
  std::atomic<const NcclCopy*> copy{nullptr};
};
constexpr std::size_t kSites = 512;
std::array<Site, kSites> sites;

std::size_t hash_of(const void* caller) {
  return (reinterpret_cast<std::uintptr_t>(caller) * 0x9e3779b97f4a7c15ull >> 32) % kSites;
}

const NcclCopy* remembered(const void* caller) {
  for (std::size_t i = 0, at = hash_of(caller); i < 8; ++i, at = (at + 1) % kSites) {
    if (sites[at].caller.load(std::memory_order_acquire) == caller) {
      return sites[at].copy.load(std::memory_order_acquire);
    }
  }
  return nullptr;
}

void remember(const void* caller, const NcclCopy* copy) {
  for (std::size_t i = 0, at = hash_of(caller); i < 8; ++i, at = (at + 1) % kSites) {
    const void* free_slot = nullptr;
    if (sites[at].caller.compare_exchange_strong(free_slot, caller)) {
      sites[at].copy.store(copy, std::memory_order_release);
      return;
    }
    if (free_slot == caller) return;
  }
}

// With several NCCL copies, the object that calls tells which is meant. One that calls no NCCL function is
// not the caller: a wrapper whose last act was the call has left the stack to its own caller.
void look_for_tail_call(const void* caller, const link_map* chosen) {
  if (inside_nccl() || survey::nccl_copies_in_this_process() < 2) return;
  const link_map* from = object_at(caller);
  if (from == nullptr || from == chosen) return;
  survey::LoadedObject object;
  object.bias = from->l_addr;
  object.dynamic = reinterpret_cast<survey::Address>(from->l_ld);
  survey::ObjectSymbols symbols;
  if (!survey::read_object(survey::OwnMemory(), object, &symbols) || !symbols.slots.empty()) return;
  const bool named = from->l_name != nullptr && from->l_name[0] != '\0';
  const std::string name = named ? from->l_name : "the program";
  note_miss(survey::Cause::kTailCall, name,
            "a call of NCCL seems to come from " + name +
                ", which calls none: a wrapper passed it on as its "
                "last act. Of the several NCCL copies here " +
                std::string(chosen->l_name) +
                " was taken; if that is wrong, compile the wrapper with -fno-optimize-sibling-calls");
}

}  // namespace

bool inside_copy(const NcclCopy& copy, const void* caller) noexcept {
  return object_at(caller) == copy.object;
}

const NcclCopy* resolve_copy(const void* caller) noexcept {
  if (const NcclCopy* copy = remembered(caller)) return copy;
  try {
    const link_map* object = find_nccl(caller);
    if (object == nullptr || object == own_object()) return nullptr;
    const NcclCopy* copy = copies().of(object);
    if (copy == nullptr) return nullptr;
    look_for_tail_call(caller, object);
    remember(caller, copy);
    return copy;
  } catch (...) {
    return nullptr;
  }
}

}  // namespace stepgate::shim

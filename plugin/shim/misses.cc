#include "plugin/shim/misses.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "plugin/shim/comm_registry.h"
#include "plugin/shim/core_loader.h"

namespace stepgate::shim {
namespace {

using survey::Cause;
using survey::Finding;

std::array<std::atomic<std::uint64_t>, survey::kCauses> counts{};

struct Said {
  std::mutex mutex;
  std::set<std::pair<Cause, std::string>> what;
};

// Never destroyed: hooks may run while the process exits.
Said& said() {
  static Said* const all = new Said;
  return *all;
}

// True the first time.
bool remember_said(Cause cause, const std::string& object) {
  const std::lock_guard lock(said().mutex);
  return said().what.emplace(cause, object).second;
}

void say(Cause cause, const std::string& text) {
  const CoreTable* core = load_core();
  if (core == nullptr || core->warn == nullptr) return;
  const std::string line = std::string("hooks missed (") +
                           survey::kCauseNames[static_cast<std::size_t>(cause)] + "): " + text +
                           ". `stepgate check --pid` shows more";
  core->warn(line.c_str());
}

// That nobody is linked to a copy is no finding as long as the communicators that speak against it may be
// yet to come.
enum class Moment { kEarly, kLate };

// Notes those that are new; what there is.
std::vector<Finding> note_all(Moment moment) {
  std::vector<survey::ObjectSymbols> objects = survey::survey_this_process();
  for (survey::ObjectSymbols& o : objects) o.hooked = remembered_of(o.object.dynamic);
  std::vector<Finding> found = survey::judge(objects);
  if (moment == Moment::kEarly)
    std::erase_if(found, [](const Finding& f) { return f.cause == Cause::kDlsym; });
  for (const Finding& f : found) {
    if (!remember_said(f.cause, f.object)) continue;
    count_miss(f.cause);
    say(f.cause, f.text + ". What helps: " + f.remedy);
  }
  return found;
}

void look(Moment moment) noexcept {
  try {
    note_all(moment);
  } catch (...) {
    // Out of memory for a sentence: the job matters more.
  }
}

// The process that was preloaded: a forked child has its parent's objects, and says nothing about them.
pid_t first_process = 0;

__attribute__((constructor)) void at_load() {
  first_process = ::getpid();
}

// The last moment at which calls past the hooks still show. Whoever never loaded an NCCL pays for a look at
// its objects' hash tables.
__attribute__((destructor)) void at_exit() {
  if (::getpid() != first_process) return;
  if (loaded_core() == nullptr && survey::nccl_copies_in_this_process() == 0) return;
  look(Moment::kLate);
}

}  // namespace

void count_miss(Cause cause) noexcept {
  counts[static_cast<std::size_t>(cause)].fetch_add(1, std::memory_order_relaxed);
}

void note_miss(Cause cause, const std::string& object, const std::string& text) noexcept {
  try {
    count_miss(cause);
    if (remember_said(cause, object)) say(cause, text);
  } catch (...) {
    // Out of memory for a sentence: the job matters more.
  }
}

void survey_process() noexcept {
  look(Moment::kEarly);
}

Cause note_unhooked(const char* from) noexcept {
  try {
    const std::vector<Finding> found = note_all(Moment::kLate);
    if (!found.empty()) {
      count_miss(found.front().cause);
      return found.front().cause;
    }
    const std::string seen = std::string(from) + " shows a communicator that no hook saw made";
    if (survey::nccl_copies_in_this_process() == 0) {
      note_miss(Cause::kHidden, "",
                seen +
                    ", and no object of this process exports NCCL: it is linked statically with its "
                    "symbols hidden (--exclude-libs) or renamed. Link to libnccl.so.2 instead");
      return Cause::kHidden;
    }
    note_miss(Cause::kUnhooked, "",
              seen +
                  ": its functions were looked up on the library's handle (dlsym), or called before the "
                  "plugin was there");
  } catch (...) {
    // Out of memory, as above.
  }
  return Cause::kUnhooked;
}

std::uint64_t misses_of(std::uint32_t cause) noexcept {
  return cause < survey::kCauses ? counts[cause].load(std::memory_order_relaxed) : 0;
}

}  // namespace stepgate::shim

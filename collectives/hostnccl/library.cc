#include "collectives/hostnccl/library.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

namespace stepgate::hostnccl {
namespace {

constexpr int kMostRanks = 1 << 20;

Outcome check_rank(int size, int rank) {
  if (size < 1 || size > kMostRanks) {
    return invalid_argument("ncclCommInitRank: nranks " + std::to_string(size) + " is not allowed: 1 to " +
                            std::to_string(kMostRanks));
  }
  if (rank >= 0 && rank < size) return success();
  return invalid_argument("ncclCommInitRank: rank " + std::to_string(rank) + " is not allowed: 0 to " +
                          std::to_string(size - 1));
}

// The communicator that a thread asked for last, for its next call. It keeps none alive. Handlers at exit,
// which may still call us, run when the thread's objects have been taken away: then there is no memory to
// use.
struct Remembered {
  ~Remembered() { gone = true; }
  volatile bool gone = false;
  const Library* library = nullptr;
  const ncclComm* handle = nullptr;
  std::uint64_t retired = 0;
  std::weak_ptr<Communicator> comm;
};

}  // namespace

Library& Library::of_this_process() {
  static Library* const library = new Library(
      TransportLoader::candidates_beside(reinterpret_cast<const void*>(&Library::of_this_process)));
  return *library;
}

Library::Library(std::vector<std::string> transport_candidates) : loader_(std::move(transport_candidates)) {}

Outcome Library::check_process() const {
  if (mark_.here()) return success();
  return invalid_usage("process " + std::to_string(getpid()) + " was forked from " +
                       std::to_string(mark_.process()) +
                       ", which had already used NCCL: start it with exec to communicate in it");
}

Outcome Library::unique_id(ncclUniqueId* id) {
  if (Outcome o = check_process(); !o.ok()) return o;
  const sgt_table* table = nullptr;
  if (Outcome o = loader_.load(&table); !o.ok()) return o;
  sgt_unique_id made = {};
  sgt_error error = {SGT_OK, -1, {}};
  if (Outcome o = translate_status(table->unique_id(&made, &error), error, false); !o.ok()) return o;
  std::memcpy(id, &made, sizeof made);
  return success();
}

Outcome Library::prepare(int size, int rank, bool blocking, bool with_device,
                         std::shared_ptr<Communicator>* comm) {
  if (Outcome o = check_process(); !o.ok()) return o;
  if (Outcome o = check_rank(size, rank); !o.ok()) return o;
  Config config;
  if (Outcome o = read_config_from_environment(&config); !o.ok()) return o;
  config.blocking = blocking;
  const sgt_table* table = nullptr;
  if (Outcome o = transport(size, &table); !o.ok()) return o;
  bury(nullptr);
  *comm = Communicator::make(table, rank, size, config);
  const Cuda* driver = with_device ? cuda() : nullptr;
  return driver != nullptr ? (*comm)->adopt_device(*driver) : success();
}

void Library::close_id(const ncclUniqueId& id) {
  const sgt_table* table = nullptr;
  if (!loader_.load(&table).ok()) return;
  sgt_unique_id unused;
  std::memcpy(&unused, &id, sizeof unused);
  table->unique_id_close(&unused);
}

Outcome Library::allocate(void** pointer, std::size_t bytes) {
  if (Outcome o = check_process(); !o.ok()) return o;
  return memory_.allocate(cuda(), pointer, bytes);
}

Outcome Library::free(void* pointer) {
  if (Outcome o = check_process(); !o.ok()) return o;
  return memory_.free(cuda(), pointer);
}

Outcome Library::transport(int size, const sgt_table** table) {
  return size == 1 ? success() : loader_.load(table);
}

// A second use would wait at a listener that is gone until the deadline; every rank can tell at once.
Outcome Library::spend(const ncclUniqueId& id, int rank) {
  IdAndRank key;
  std::memcpy(key.first.data(), &id, sizeof id);
  key.second = rank;
  const std::lock_guard lock(mutex_);
  if (spent_.insert(key).second) return success();
  return invalid_usage("ncclCommInitRank: this unique id has been used by rank " + std::to_string(rank) +
                       " of this process before: an id serves one communicator, get a new one");
}

ncclComm_t Library::enlist(std::shared_ptr<Communicator> comm) {
  const std::lock_guard lock(mutex_);
  handles_.push_back({handles_.size()});
  alive_.emplace(&handles_.back(), std::move(comm));
  return &handles_.back();
}

Outcome Library::find(ncclComm_t handle, std::shared_ptr<Communicator>* comm) const {
  if (Outcome o = check_process(); !o.ok()) return o;
  if (handle == nullptr) return invalid_argument("comm is NULL");
  thread_local Remembered last;
  const std::uint64_t retired = retired_.load(std::memory_order_acquire);
  if (!last.gone && last.handle == handle && last.library == this && last.retired == retired) {
    *comm = last.comm.lock();
    if (*comm != nullptr) return success();
  }
  const std::lock_guard lock(mutex_);
  const auto found = alive_.find(handle);
  if (found == alive_.end()) {
    return invalid_argument("comm is no live communicator: destroyed, aborted, or of another library");
  }
  *comm = found->second;
  if (last.gone) return success();
  last.library = this;
  last.handle = handle;
  last.retired = retired;
  last.comm = found->second;
  return success();
}

bool Library::retire(ncclComm_t handle) {
  const std::lock_guard lock(mutex_);
  retired_.fetch_add(1, std::memory_order_release);
  return alive_.erase(handle) != 0;
}

std::vector<std::shared_ptr<Staging>> Library::take_ended() {
  const std::lock_guard lock(mutex_);
  const auto lies =
      std::partition(buried_.begin(), buried_.end(), [](const auto& staging) { return !staging->idle(); });
  std::vector<std::shared_ptr<Staging>> ended(lies, buried_.end());
  buried_.erase(lies, buried_.end());
  return ended;
}

void Library::bury(std::shared_ptr<Staging> staging) {
  constexpr std::chrono::seconds kPatience{2};
  for (const auto& ended : take_ended()) ended->release();
  if (staging == nullptr) return;
  if (staging->wait_until_idle(kPatience)) {
    staging->release();
    return;
  }
  const std::lock_guard lock(mutex_);
  buried_.push_back(std::move(staging));
}

Group& group_of_this_thread() {
  thread_local Group group;
  return group;
}

namespace {
thread_local char last_error[1024] = "";
}

const char* last_error_of_this_thread() noexcept {
  return last_error;
}

void set_last_error_of_this_thread(const char* message) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", message);
}

}  // namespace stepgate::hostnccl

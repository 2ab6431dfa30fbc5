#include "plugin/shim/core_loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

#include "plugin/shim/comm_registry.h"
#include "plugin/shim/guard.h"
#include "plugin/shim/job_floats.h"
#include "plugin/shim/misses.h"

namespace stepgate::shim {
namespace {

std::atomic<const CoreTable*> core{nullptr};
std::once_flag once;

std::string& error_text() {
  static std::string* const text = new std::string;
  return *text;
}

const NcclTable* table_of(ncclComm_t comm) {
  const CommEntry entry = find_comm(comm);
  return entry.copy != nullptr ? &entry.copy->table : nullptr;
}

const ShimServices services = {kCoreAbi,
                               sizeof(ShimServices),
                               table_of,
                               enter_nccl,
                               leave_nccl,
                               survey_process,
                               [](const char* from) { note_unhooked(from); },
                               misses_of};

// The core stands beside the shim: no search path may hand us another build.
std::string core_path() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&core_path), &info) == 0 || info.dli_fname == nullptr) {
    return kCoreLibraryName;
  }
  const std::string own = info.dli_fname;
  const std::size_t slash = own.rfind('/');
  return slash == std::string::npos ? std::string(kCoreLibraryName)
                                    : own.substr(0, slash + 1) + kCoreLibraryName;
}

void complain(const std::string& why) {
  error_text() = why;
  const std::string line = "stepgate error: " + why + "; the job runs on without StepGate\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

void open_core() {
  const JobFloats floats;
  const std::string path = core_path();
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return complain(why != nullptr ? why : "cannot open " + path);
  }
  const auto entry = reinterpret_cast<CoreEntry>(dlsym(handle, kCoreEntryName));
  const CoreTable* table = entry != nullptr ? entry(kCoreAbi, &services) : nullptr;
  if (table == nullptr || table->size != sizeof(CoreTable)) {
    return complain(path + " is of another version than the shim beside it");
  }
  core.store(table, std::memory_order_release);
}

}  // namespace

const CoreTable* load_core() noexcept {
  try {
    std::call_once(once, open_core);
  } catch (...) {
    return nullptr;
  }
  return loaded_core();
}

const CoreTable* loaded_core() noexcept {
  return core.load(std::memory_order_acquire);
}

const char* load_error() noexcept {
  return error_text().c_str();
}

}  // namespace stepgate::shim

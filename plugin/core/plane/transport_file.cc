#include "plugin/core/plane/transport_file.h"

#include <dlfcn.h>

#include <cstring>

#include "plugin/core/mpi_launchers.h"

namespace stepgate::plane {
namespace {

// The core's own folder first, so that no search path hands us another build.
std::string beside_the_core() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&beside_the_core), &info) == 0 || info.dli_fname == nullptr) {
    return SGT_LIBRARY_NAME;
  }
  const std::string own = info.dli_fname;
  const std::size_t slash = own.rfind('/');
  return slash == std::string::npos ? std::string(SGT_LIBRARY_NAME)
                                    : own.substr(0, slash + 1) + SGT_LIBRARY_NAME;
}

}  // namespace

std::string unsafe_ucx_environment(const gate::Environment& environment) {
  struct Wanted {
    const char* name;
    const char* value;
  };
  static constexpr Wanted kWanted[] = {{"UCX_ERROR_SIGNALS", ""},
                                       {"UCX_DEBUG_SIGNO", "0"},
                                       {"UCX_HANDLE_ERRORS", "none"},
                                       {"UCX_MEM_EVENTS", "n"}};
  const bool mpi = started_by_mpi(environment);
  std::string missing;
  for (const Wanted& w : kWanted) {
    if (mpi && std::strcmp(w.name, "UCX_MEM_EVENTS") == 0) continue;
    const char* value = environment(w.name);
    if (value == nullptr || std::strcmp(value, w.value) != 0) {
      missing += std::string(" ") + w.name + "=" + w.value;
    }
  }
  if (missing.empty()) return "";
  return "UCX would take over signal handlers or patch mmap in this process; export" + missing +
         ", or start the ranks with stepgate run, or preload the plugin with STEPGATE_PLANE=on";
}

const sgt_table* open_transport(std::string* error) {
  void* library = dlopen(beside_the_core().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    *error = why != nullptr ? why : "cannot open " SGT_LIBRARY_NAME;
    return nullptr;
  }
  const auto entry = reinterpret_cast<sgt_entry>(dlsym(library, SGT_ENTRY_NAME));
  const sgt_table* table = entry != nullptr ? entry(SGT_ABI_VERSION) : nullptr;
  if (table == nullptr || table->size < sizeof(sgt_table)) {
    *error = SGT_LIBRARY_NAME " is of another version than the plugin";
    return nullptr;
  }
  return table;
}

}  // namespace stepgate::plane

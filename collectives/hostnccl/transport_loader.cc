#include "collectives/hostnccl/transport_loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include "collectives/hostnccl/config.h"

namespace stepgate::hostnccl {
namespace {

std::string folder_of(const void* address) {
  Dl_info info = {};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string path = info.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string(".") : path.substr(0, slash);
}

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos;
}

// NULL and a reason, or the library.
void* open_first(const std::vector<std::string>& candidates, std::string* reasons) {
  for (const std::string& candidate : candidates) {
    if (is_path(candidate) && access(candidate.c_str(), F_OK) != 0) {
      *reasons += "; " + candidate + ": no such file";
      continue;
    }
    if (void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* reason = dlerror();
    *reasons += std::string("; ") + (reason != nullptr ? reason : candidate.c_str());
  }
  return nullptr;
}

Outcome ask_for_table(void* library, const sgt_table** table) {
  const auto entry = reinterpret_cast<sgt_entry>(dlsym(library, SGT_ENTRY_NAME));
  if (entry == nullptr) return {ncclSystemError, SGT_LIBRARY_NAME " has no symbol " SGT_ENTRY_NAME};
  const sgt_table* found = entry(SGT_ABI_VERSION);
  if (found == nullptr || found->abi_version != SGT_ABI_VERSION || found->size < sizeof(sgt_table)) {
    return {ncclSystemError, SGT_LIBRARY_NAME " does not speak version " + std::to_string(SGT_ABI_VERSION) +
                                 " of the transport table: it comes from another build"};
  }
  *table = found;
  return success();
}

}  // namespace

std::vector<std::string> TransportLoader::candidates_beside(const void* address) {
  const std::string folder = folder_of(address);
  std::vector<std::string> candidates;
  if (!folder.empty()) {
    candidates.push_back(folder + "/../" SGT_LIBRARY_NAME);
    candidates.push_back(folder + "/" SGT_LIBRARY_NAME);
  }
  candidates.push_back(SGT_LIBRARY_NAME);
  return candidates;
}

Outcome TransportLoader::load(const sgt_table** table) {
  const std::lock_guard lock(mutex_);
  if (!tried_) load_once();
  tried_ = true;
  *table = table_;
  return failure_;
}

void TransportLoader::load_once() {
  make_ucx_environment_safe();
  std::string reasons;
  void* library = open_first(candidates_, &reasons);
  failure_ = library != nullptr
                 ? ask_for_table(library, &table_)
                 : Outcome{ncclSystemError, "cannot open the transport " SGT_LIBRARY_NAME + reasons};
}

}  // namespace stepgate::hostnccl

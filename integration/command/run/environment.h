// The environment of each rank, built before fork so that the child only has to exec.
//
// Thread: any. Order, lock: none. Ownership: the environment owns its strings.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "integration/command/run/options.h"

namespace stepgate::command {

class Environment {
 public:
  // Of this process.
  static Environment inherited();

  void set(const std::string& name, const std::string& value) { values_[name] = value; }
  void set_default(const std::string& name, const std::string& value) { values_.emplace(name, value); }
  // Puts value in front of a colon-separated list.
  void prepend(const std::string& name, const std::string& value);
  // Behind it, once.
  void append(const std::string& name, const std::string& value);
  std::vector<std::string> strings() const;

 private:
  std::map<std::string, std::string> values_;
};

// Where the command finds the product's libraries: in lib beside its own bin. Nothing is checked here;
// shared_environment() throws std::runtime_error for one that is needed and missing.
struct Installation {
  std::string plugin;             // libstepgate.so
  std::string host_nccl;          // the folder of the host-memory libnccl.so.2
  std::string sanitizer_runtime;  // of sanitizer builds, else empty
};
Installation find_installation();

// What all ranks share: rendezvous, run id, libraries, safe UCX settings, the caller's settings.
Environment shared_environment(const RunOptions& options, const Installation& installation);
void set_rank(Environment& environment, unsigned rank, unsigned ranks);

// What libucs must find in the environment before it is loaded, unless the caller has set something else.
struct DefaultSetting {
  const char* name;
  const char* value;
};
std::span<const DefaultSetting> safe_ucx_settings();
// The folder that LD_LIBRARY_PATH needs for --nccl WHICH; "" for none. Throws.
std::string nccl_folder(const std::string& which, const Installation& installation);
// The library to preload, as LD_PRELOAD can hold it: of the installation where `path` is empty. Throws.
std::string library_to_preload(const std::string& path, const Installation& installation);

bool machine_has_gpu();

}  // namespace stepgate::command

#include "integration/command/run/environment.h"

#include <dlfcn.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "integration/command/run/library_file.h"
#include "integration/command/run/port.h"

namespace stepgate::command {
namespace {

namespace fs = std::filesystem;

fs::path library_folder() {
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib";
}

std::string existing(const fs::path& path, const char* what) {
  if (fs::exists(path)) return path.string();
  throw std::runtime_error(std::string(what) + " is not at " + path.string());
}

std::string new_run_id() {
  unsigned char bytes[8];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) throw std::runtime_error("no random bytes");
  std::string id;
  for (const unsigned char byte : bytes) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", byte);
    id += text;
  }
  return id;
}

// UCX's own defaults take over signal handlers and patch mmap in the job. They have to be set before
// exec: setting them later would race with the job's threads. What the caller has set stays.
constexpr DefaultSetting kSafeUcx[] = {{"UCX_ERROR_SIGNALS", ""},
                                       {"UCX_DEBUG_SIGNO", "0"},
                                       {"UCX_HANDLE_ERRORS", "none"},
                                       {"UCX_MEM_EVENTS", "n"},
                                       {"UCX_WARN_UNUSED_ENV_VARS", "n"}};

void make_ucx_safe(Environment& environment) {
  for (const DefaultSetting& setting : kSafeUcx) environment.set_default(setting.name, setting.value);
  environment.set_default("UCX_MM_ERROR_HANDLING", "y");
  environment.set_default("UCX_KEEPALIVE_INTERVAL", "1s");
}

// The dynamic loader splits LD_PRELOAD at both, and would go on without the plugin.
std::string preloadable(const std::string& path) {
  if (path.find_first_of(" :") == std::string::npos) return path;
  throw std::runtime_error("the plugin cannot be preloaded from " + path +
                           ": no folder in its path may have a space or a colon in its name");
}

void preload_plugin(Environment& environment, const RunOptions& options, const Installation& installation) {
  environment.prepend("LD_PRELOAD", library_to_preload(options.plugin_path, installation));
  // A sanitizer's runtime has to come before everything that it watches.
  if (!installation.sanitizer_runtime.empty()) {
    environment.prepend("LD_PRELOAD", installation.sanitizer_runtime);
  }
}

}  // namespace

Environment Environment::inherited() {
  Environment result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) result.values_[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return result;
}

void Environment::prepend(const std::string& name, const std::string& value) {
  std::string& list = values_[name];
  list = list.empty() ? value : value + ":" + list;
}

void Environment::append(const std::string& name, const std::string& value) {
  std::string& list = values_[name];
  if ((":" + list + ":").find(":" + value + ":") != std::string::npos) return;
  list = list.empty() ? value : list + ":" + value;
}

std::vector<std::string> Environment::strings() const {
  std::vector<std::string> result;
  for (const auto& [name, value] : values_) result.push_back(name + "=" + value);
  return result;
}

std::span<const DefaultSetting> safe_ucx_settings() {
  return kSafeUcx;
}

// "host" and "system" are names; anything else is a folder, or a file whose folder is meant.
std::string nccl_folder(const std::string& which, const Installation& installation) {
  if (which == "system") return "";
  if (which == "host") return existing(installation.host_nccl, "the host-memory NCCL");
  return folder_of_nccl(which);
}

std::string library_to_preload(const std::string& path, const Installation& installation) {
  return preloadable(path.empty() ? existing(installation.plugin, "the plugin") : checked_plugin(path));
}

bool machine_has_gpu() {
  if (!fs::exists("/dev/nvidiactl") && !fs::exists("/dev/nvidia0") && !fs::exists("/dev/dxg")) return false;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return false;
  dlclose(driver);
  return true;
}

Installation find_installation() {
  const fs::path folder = library_folder();
  return {.plugin = (folder / "libstepgate.so").string(),
          .host_nccl = (folder / "hostnccl").string(),
          .sanitizer_runtime = STEPGATE_SANITIZER_RUNTIME};
}

Environment shared_environment(const RunOptions& options, const Installation& installation) {
  Environment environment = Environment::inherited();
  environment.set("MASTER_ADDR", "127.0.0.1");
  environment.set("MASTER_PORT", std::to_string(free_port_pair()));
  environment.set_default("STEPGATE_RUN_ID", new_run_id());
  if (!options.mode.empty()) environment.set("STEPGATE_MODE", options.mode);
  make_ucx_safe(environment);
  const std::string which = !options.nccl.empty() ? options.nccl : machine_has_gpu() ? "system" : "host";
  const std::string nccl = nccl_folder(which, installation);
  if (!nccl.empty()) environment.prepend("LD_LIBRARY_PATH", nccl);
  for (const auto& [name, value] : options.settings) environment.set(name, value);
  if (options.plugin) preload_plugin(environment, options, installation);
  return environment;
}

void set_rank(Environment& environment, unsigned rank, unsigned ranks) {
  environment.set("RANK", std::to_string(rank));
  environment.set("LOCAL_RANK", std::to_string(rank));
  environment.set("WORLD_SIZE", std::to_string(ranks));
  environment.set("LOCAL_WORLD_SIZE", std::to_string(ranks));
}

}  // namespace stepgate::command

#include "collectives/hostnccl/config.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace stepgate::hostnccl {
namespace {

constexpr const char* kTimeout = "STEPGATE_HOSTNCCL_TIMEOUT";
constexpr const char* kTransport = "STEPGATE_HOSTNCCL_TRANSPORT";
constexpr const char* kLaunchDelay = "STEPGATE_HOSTNCCL_LAUNCH_DELAY_US";
constexpr unsigned kLongestDelay = 10'000'000;
constexpr double kShortest = 0.001;
constexpr double kLongest = 604800;  // a week

Outcome refuse(const char* name, std::string_view value, const char* allowed) {
  return invalid_usage(std::string(name) + "='" + std::string(value) + "' is not allowed: " + allowed);
}

// Not strtod: it would follow the job's locale.
bool parse_seconds(std::string_view text, double* seconds) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *seconds);
  return error == std::errc() && stop == end && *seconds >= kShortest && *seconds <= kLongest;
}

bool parse_delay(std::string_view text, unsigned* microseconds) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *microseconds);
  return error == std::errc() && stop == end && *microseconds <= kLongestDelay;
}

bool known_transport(std::string_view name) {
  return name == "auto" || name == "tcp" || name == "shm";
}

const char* from_environment(const char* name) {
  return std::getenv(name);
}

}  // namespace

Outcome read_config(Lookup lookup, Config* config) {
  Config read;
  if (const char* value = lookup(kTimeout)) {
    if (!parse_seconds(value, &read.timeout_seconds)) {
      return refuse(kTimeout, value, "a number of seconds from 0.001 to 604800 (default 600)");
    }
  }
  if (const char* value = lookup(kTransport)) {
    if (!known_transport(value)) return refuse(kTransport, value, "auto, tcp or shm (default auto)");
    read.transport = value;
  }
  if (const char* value = lookup(kLaunchDelay)) {
    if (!parse_delay(value, &read.launch_delay_us)) {
      return refuse(kLaunchDelay, value, "a number of microseconds from 0 to 10000000 (default 0)");
    }
  }
  *config = read;
  return success();
}

Outcome read_config_from_environment(Config* config) {
  return read_config(from_environment, config);
}

void make_ucx_environment_safe() {
  constexpr int kKeepTheJobsOwn = 0;
  setenv("UCX_ERROR_SIGNALS", "", kKeepTheJobsOwn);
  setenv("UCX_DEBUG_SIGNO", "0", kKeepTheJobsOwn);  // else SIGHUP, which would then wait for a debugger
  setenv("UCX_HANDLE_ERRORS", "none", kKeepTheJobsOwn);
  setenv("UCX_MEM_EVENTS", "n", kKeepTheJobsOwn);
  setenv("UCX_WARN_UNUSED_ENV_VARS", "n", kKeepTheJobsOwn);
}

}  // namespace stepgate::hostnccl

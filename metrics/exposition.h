// Exposition: what a metrics page needs to know about where it may live. Plain data; the environment
// is read elsewhere.
//
// Thread: any. Ownership: the caller; Publisher copies it.
#pragma once

#include <cstdint>
#include <string>

namespace stepgate::metrics {

struct ExpositionOptions {
  bool http = true;
  std::string address = "127.0.0.1";  // numeric IPv4 or "localhost"; 0.0.0.0 for all interfaces
  std::uint16_t first_port = 19470;   // of local rank 0; 0: any free port
  int local_rank = 0;
  int local_world = 1;
  std::string textfile_dir;  // "" none: used where no port was to be had, or http is off
  std::string file_sd_dir;   // "" none: a target file per rank for Prometheus' file discovery
};

inline constexpr int kFallbackPorts = 64;  // tried above the local ranks' own range
inline constexpr const char* kPagePath = "/metrics";

}  // namespace stepgate::metrics

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
  std::string auth_file;        // "" nobody is asked; else a file with one line user:password
  std::string tls_certificate;  // "" plain HTTP; else a PEM file: the certificate, its chain behind it
  std::string tls_key;          // "" in the certificate's file; else a PEM file of its own
  std::string tls_folder;       // where metrics/tls's libraries lie
  std::string textfile_dir;     // "" none: used where no port was to be had, or http is off
  std::string file_sd_dir;      // "" none: a target file per rank for Prometheus' file discovery
};

inline constexpr int kFallbackPorts = 64;  // tried above the local ranks' own range
// Beside the library that this is part of; see metrics/tls/bridge.h.
inline constexpr const char* kTlsFolderName = "stepgate_tls";
inline constexpr const char* kPagePath = "/metrics";

}  // namespace stepgate::metrics

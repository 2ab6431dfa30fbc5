// The command line of `stepgate run`.
//
// Thread: any. Order, lock: none. Ownership: the options own their strings.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepgate::command {

struct RunOptions {
  unsigned ranks = 0;
  std::string mode;  // empty: STEPGATE_MODE stays as it is
  std::vector<std::pair<std::string, std::string>> settings;
  bool plugin = true;
  std::string plugin_path;  // empty: the one beside this command
  std::string nccl;         // empty: host without a GPU, else system; "host", "system", or a folder or file
  double grace_seconds = 5;
  std::vector<std::string> program;
  bool help = false;
};

// Values of options that other commands share. Throw UsageError.
std::string parse_mode(std::string_view text);
std::pair<std::string, std::string> parse_setting(std::string_view text);

// Throws UsageError.
RunOptions parse_run_options(const std::vector<std::string_view>& words);
const char* run_help() noexcept;

}  // namespace stepgate::command

// The command line of `stepgate check`.
//
// Thread: any. Order, lock: none. Ownership: the options own their strings.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace stepgate::command {

struct CheckOptions {
  bool help = false;
  bool as_json = false;
  pid_t pid = 0;                     // 0: none
  std::vector<std::string> program;  // empty: none
  double seconds = 60;               // that it may take
};

// Throws UsageError.
CheckOptions parse_check_options(const std::vector<std::string_view>& words);
const char* check_help() noexcept;

}  // namespace stepgate::command

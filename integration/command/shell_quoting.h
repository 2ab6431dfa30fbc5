// A text as one word of a POSIX shell.
//
// Thread: any; pure.
#pragma once

#include <string>

namespace stepgate::command {

inline std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace stepgate::command

// Log: one line per event to standard error, in one write, so that ranks' lines do not mix.
//
// Thread: any. Never blocks on anything but the descriptor; a failed write is ignored.
#pragma once

#include <string>

#include "plugin/core/configuration.h"

namespace stepgate::gate {

class Log {
 public:
  Log(LogLevel level, int rank) : level_(level), rank_(rank) {}
  void error(const std::string& text) const noexcept { line(LogLevel::kError, "error", text); }
  void warn(const std::string& text) const noexcept { line(LogLevel::kWarn, "warning", text); }
  void info(const std::string& text) const noexcept { line(LogLevel::kInfo, "info", text); }

 private:
  void line(LogLevel level, const char* word, const std::string& text) const noexcept;
  LogLevel level_;
  int rank_;
};

}  // namespace stepgate::gate

#include "plugin/core/log.h"

#include <unistd.h>

namespace stepgate::gate {

void Log::line(LogLevel level, const char* word, const std::string& text) const noexcept {
  if (level > level_) return;
  try {
    const std::string whole = "stepgate[rank " + std::to_string(rank_) + "] " + word + ": " + text + "\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, whole.data(), whole.size());
  } catch (...) {
    // Out of memory for a log line: the job matters more.
  }
}

}  // namespace stepgate::gate

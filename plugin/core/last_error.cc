#include "plugin/core/last_error.h"

#include <cstring>

namespace stepgate::gate {
namespace {

// No object with a destructor: those of a thread are gone before exit's handlers run, which may fail too.
constexpr std::size_t kTextBytes = 4096;
constexpr char kCut[] = "...";
thread_local char slot[kTextBytes] = "";

// The largest length up to `most` that ends no UTF-8 character in its middle.
std::size_t whole_characters(const std::string& text, std::size_t most) {
  const auto continues = [&](std::size_t i) { return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80; };
  while (most > 0 && continues(most)) --most;
  return most;
}

}  // namespace

stepgate_status fail(stepgate_status status, const std::string& text) noexcept {
  if (text.size() < kTextBytes) {
    std::memcpy(slot, text.c_str(), text.size() + 1);
    return status;
  }
  const std::size_t kept = whole_characters(text, kTextBytes - sizeof kCut);
  std::memcpy(slot, text.data(), kept);
  std::memcpy(slot + kept, kCut, sizeof kCut);
  return status;
}

const char* last_error() noexcept {
  return slot;
}

void clear_last_error() noexcept {
  slot[0] = '\0';
}

}  // namespace stepgate::gate

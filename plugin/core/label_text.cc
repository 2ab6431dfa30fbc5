#include "plugin/core/label_text.h"

#include <cstddef>
#include <cstdint>

namespace stepgate::gate {
namespace {

// Bytes that follow a first byte; -1 for one that begins nothing.
int followers_of(unsigned char first) {
  if (first < 0x80) return 0;
  if (first >= 0xc2 && first <= 0xdf) return 1;
  if (first >= 0xe0 && first <= 0xef) return 2;
  if (first >= 0xf0 && first <= 0xf4) return 3;
  return -1;
}

// Neither longer than needed, nor half of a surrogate pair, nor beyond the last code point.
bool allowed_code_point(std::uint32_t point, int followers) {
  constexpr std::uint32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
  const bool surrogate = point >= 0xd800 && point <= 0xdfff;
  return point >= kSmallest[followers] && point <= 0x10ffff && !surrogate;
}

bool is_control(std::uint32_t point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0);
}

// Bytes of the character that the text begins with; 0 where it begins with none that is allowed.
std::size_t first_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const int followers = followers_of(first);
  if (followers < 0 || text.size() <= static_cast<std::size_t>(followers)) return 0;
  std::uint32_t point = followers == 0 ? first : first & (0x3fu >> followers);
  for (int k = 1; k <= followers; ++k) {
    const auto next = static_cast<unsigned char>(text[static_cast<std::size_t>(k)]);
    if ((next & 0xc0u) != 0x80u) return 0;
    point = point << 6 | (next & 0x3fu);
  }
  if (!allowed_code_point(point, followers) || is_control(point)) return 0;
  return static_cast<std::size_t>(followers) + 1;
}

}  // namespace

bool is_label_text(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = first_character(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void make_label_text(char* text, std::size_t length) noexcept {
  for (std::size_t i = 0; i < length;) {
    const std::size_t good = first_character({text + i, length - i});
    if (good == 0) text[i] = '?';
    i += good == 0 ? 1 : good;
  }
}

std::string as_label_text(std::string text) {
  make_label_text(text.data(), text.size());
  return text;
}

}  // namespace stepgate::gate

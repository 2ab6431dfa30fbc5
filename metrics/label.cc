#include "metrics/label.h"

#include <cstdint>

namespace stepgate::metrics {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
constexpr std::size_t kHashDigits = 8;
constexpr std::size_t kMark = 2 + kHashDigits;  // "..", digits

// Bytes of the whole character that `text` begins with; 0 where it begins with none.
std::size_t character_size(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  std::size_t size = 0;
  if (first < 0x80) return first >= 0x20 || first == '\n' ? (first == 0x7f ? 0 : 1) : 0;
  if (first >= 0xc2 && first <= 0xdf) size = 2;
  if (first >= 0xe0 && first <= 0xef) size = 3;
  if (first >= 0xf0 && first <= 0xf4) size = 4;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return 0;
  }
  // Overlong forms, halves of surrogate pairs, and what lies beyond the last code point.
  const unsigned second = byte(1);
  if (first == 0xe0 && second < 0xa0) return 0;
  if (first == 0xed && second > 0x9f) return 0;
  if (first == 0xf0 && second < 0x90) return 0;
  if (first == 0xf4 && second > 0x8f) return 0;
  if (first == 0xc2 && second < 0xa0) return 0;  // control characters of two bytes
  return size;
}

}  // namespace

std::string label_text(std::string_view text) {
  const std::string_view whole = text;
  std::string out;
  std::size_t fits = 0;  // of `out`, with room for what marks a cut
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const std::string_view next = size == 0 ? kReplacement : text.substr(0, size);
    if (out.size() + next.size() > kLongestLabel) return out.substr(0, fits) + ".." + short_hash(whole);
    out.append(next);
    if (out.size() + kMark <= kLongestLabel) fits = out.size();
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

std::string short_hash(std::string_view text) {
  std::uint32_t h = 2166136261u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  std::string digits(kHashDigits, '0');
  for (std::size_t i = kHashDigits; i-- > 0; h >>= 4) digits[i] = "0123456789abcdef"[h & 15u];
  return digits;
}

}  // namespace stepgate::metrics

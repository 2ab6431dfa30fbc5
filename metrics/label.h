// Label text: what names from outside become before they are values of labels. One bad byte makes a whole
// page unreadable for Prometheus, and one long name makes every series long.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stepgate::metrics {

inline constexpr std::size_t kLongestLabel = 128;  // bytes of a value

// Bytes that are no UTF-8, and control characters but the line feed (which a page can hold, escaped),
// become U+FFFD. A text above kLongestLabel is cut between two characters; its end is ".." and short_hash of
// the whole, so that two long names stay two.
std::string label_text(std::string_view text);
// Eight hexadecimal digits.
std::string short_hash(std::string_view text);

}  // namespace stepgate::metrics

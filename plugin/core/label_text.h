// What may become a label of a metric or a line of a log: UTF-8 without control characters. One bad
// byte makes a whole metrics page unreadable, so names are checked where they come in.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stepgate::gate {

inline constexpr char kLabelAllowed[] = "UTF-8 text without control characters";

bool is_label_text(std::string_view text) noexcept;

// Text of another process: each byte that may not be there becomes a question mark.
void make_label_text(char* text, std::size_t length) noexcept;
std::string as_label_text(std::string text);

}  // namespace stepgate::gate

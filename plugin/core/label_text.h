// What may become a label of a metric or a line of a log: UTF-8 without control characters. One bad
// byte makes a whole metrics page unreadable, so names are checked where they come in.
//
// Pure functions; any thread.
#pragma once

#include <string_view>

namespace stepgate::gate {

inline constexpr char kLabelAllowed[] = "UTF-8 text without control characters";

bool is_label_text(std::string_view text) noexcept;

}  // namespace stepgate::gate

#include "integration/command/arguments.h"

#include <charconv>

namespace stepgate::command {

bool Arguments::at_option() const {
  return !done() && words_[next_].size() > 1 && words_[next_].front() == '-' && words_[next_] != "--";
}

std::string_view Arguments::take() {
  option_ = words_[next_++];
  const std::size_t equals = option_.find('=');
  has_attached_ = option_.starts_with("--") && equals != std::string_view::npos;
  if (has_attached_) {
    attached_ = option_.substr(equals + 1);
    option_ = option_.substr(0, equals);
  }
  return option_;
}

std::string_view Arguments::value() {
  if (has_attached_) return attached_;
  if (done()) throw UsageError(std::string(option_) + " needs a value");
  return words_[next_++];
}

void Arguments::no_value() const {
  if (has_attached_) bad_value(option_, attached_, "no value");
}

std::vector<std::string_view> Arguments::rest() {
  std::vector<std::string_view> left(words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end());
  next_ = words_.size();
  return left;
}

void bad_value(std::string_view option, std::string_view text, std::string_view allowed) {
  throw UsageError(std::string(option) + " is '" + std::string(text) + "'; allowed: " + std::string(allowed));
}

double parse_number(std::string_view option, std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) bad_value(option, text, "a number");
  return number;
}

std::uint64_t parse_count(std::string_view option, std::string_view text, std::uint64_t low,
                          std::uint64_t high) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || number < low || number > high) {
    bad_value(option, text, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return number;
}

}  // namespace stepgate::command

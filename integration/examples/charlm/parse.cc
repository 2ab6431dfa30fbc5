#include "integration/examples/charlm/parse.h"

#include <charconv>
#include <stdexcept>
#include <string>

namespace stepgate::charlm {
namespace {

std::string shortest(double x) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, x).ptr);
}

}  // namespace

void refuse(std::string_view name, std::string_view text, std::string_view allowed) {
  throw std::invalid_argument(std::string(name) + " is '" + std::string(text) +
                              "'; allowed: " + std::string(allowed));
}

std::uint64_t parse_whole(std::string_view name, std::string_view text, std::uint64_t low,
                          std::uint64_t high) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < low || number > high) {
    refuse(name, text, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return number;
}

double parse_real(std::string_view name, std::string_view text, double low, double high) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number >= low && number <= high)) {
    refuse(name, text, "a number from " + shortest(low) + " to " + shortest(high));
  }
  return number;
}

}  // namespace stepgate::charlm

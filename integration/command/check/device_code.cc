#include "integration/command/check/device_code.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

namespace stepgate::command {
namespace {

constexpr std::string_view kMark = "stepgate-fatbin: ";

std::string_view value_of(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at + name.size());
  return rest.substr(0, rest.find(' '));
}

// Takes a number off the front, and one character behind it.
int take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) {
    text = {};
    return 0;
  }
  const auto taken = static_cast<std::size_t>(end - text.data()) + 1;
  text.remove_prefix(std::min(taken, text.size()));
  return number;
}

}  // namespace

DeviceCode parse_device_code(std::string_view line) {
  DeviceCode code;
  std::string_view cuda = value_of(line, "cuda=");
  code.cuda = take_number(cuda) * 1000;
  code.cuda += take_number(cuda) * 10;
  std::string_view list = value_of(line, "sm=");
  while (!list.empty()) {
    const int architecture = take_number(list);
    if (architecture > 0) code.architectures.push_back(architecture);
  }
  std::string_view ptx = value_of(line, "ptx=");
  code.ptx = take_number(ptx);
  code.present = code.cuda > 0 && (!code.architectures.empty() || code.ptx > 0);
  return code;
}

DeviceCode device_code_of(const std::string& library) {
  std::ifstream file(library, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::size_t mark = bytes.find(kMark);
  if (mark == std::string::npos) return {};
  const std::size_t start = mark + kMark.size();
  return parse_device_code(std::string_view(bytes).substr(start, bytes.find('\0', start) - start));
}

std::string fitting_code(const DeviceCode& code, int capability, int driver_version) {
  int best = 0;
  for (const int architecture : code.architectures) {
    if (architecture / 10 == capability / 10 && architecture <= capability)
      best = std::max(best, architecture);
  }
  if (best > 0) return "sm_" + std::to_string(best);
  const bool compiles = code.ptx > 0 && code.ptx <= capability && driver_version >= code.cuda;
  return compiles ? "PTX of compute_" + std::to_string(code.ptx) : "";
}

}  // namespace stepgate::command

#include "integration/command/run/known_names.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "plugin/core/config_table.h"

namespace stepgate::command {
namespace {

constexpr std::string_view kPrefix = "STEPGATE_";

std::vector<std::string_view> known_names() {
  // Of the host-memory NCCL, which has no table.
  std::vector<std::string_view> names = {"STEPGATE_HOSTNCCL_TRANSPORT", "STEPGATE_HOSTNCCL_TIMEOUT",
                                         "STEPGATE_HOSTNCCL_LAUNCH_DELAY_US"};
  for (const gate::ConfigEntry& entry : gate::config_table()) {
    if (std::string_view(entry.name).starts_with(kPrefix)) names.push_back(entry.name);
  }
  return names;
}

// Insertions, removals and replacements that make one into the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_known_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return "";
  const std::vector<std::string_view> names = known_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return "";
  return std::string(*std::min_element(
      names.begin(), names.end(), [&](auto a, auto b) { return distance(name, a) < distance(name, b); }));
}

}  // namespace stepgate::command

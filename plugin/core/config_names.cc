#include "plugin/core/config_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "plugin/core/config_table.h"

namespace stepgate::gate {
namespace {

constexpr std::string_view kPrefix = "STEPGATE_";

// Of the host-memory NCCL, which has no table.
constexpr std::string_view kHostnccl[] = {"STEPGATE_HOSTNCCL_TRANSPORT", "STEPGATE_HOSTNCCL_TIMEOUT",
                                          "STEPGATE_HOSTNCCL_LAUNCH_DELAY_US"};

// Of scripts, tests and the stand-in driver: they may be set around a job, and are not settings.
constexpr std::string_view kOthers[] = {"STEPGATE_TEST_", "STEPGATE_STANDIN_", "STEPGATE_SKIP_INSTALL",
                                        "STEPGATE_TIDY_BASE"};

std::vector<std::string_view> known_names() {
  std::vector<std::string_view> names(std::begin(kHostnccl), std::end(kHostnccl));
  for (const ConfigEntry& entry : config_table()) {
    if (std::string_view(entry.name).starts_with(kPrefix)) names.push_back(entry.name);
  }
  return names;
}

bool of_others(std::string_view name) {
  return std::any_of(std::begin(kOthers), std::end(kOthers),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// STEPGATE_SERVICE_HOST, STEPGATE_PORT=tcp://..., STEPGATE_PORT_80_TCP_ADDR and their like.
bool of_kubernetes(std::string_view name, std::string_view value) {
  return name.ends_with("_SERVICE_HOST") || name.find("_SERVICE_PORT") != std::string_view::npos ||
         value.starts_with("tcp://") || value.starts_with("udp://") ||
         (name.find("_PORT_") != std::string_view::npos &&
          (name.find("_TCP") != std::string_view::npos || name.find("_UDP") != std::string_view::npos));
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

bool is_hostnccl_name(std::string_view name) {
  return std::find(std::begin(kHostnccl), std::end(kHostnccl), name) != std::end(kHostnccl);
}

std::string nearest_known_name(std::string_view name) {
  if (!name.starts_with(kPrefix) || of_others(name)) return "";
  const std::vector<std::string_view> names = known_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return "";
  return std::string(*std::min_element(
      names.begin(), names.end(), [&](auto a, auto b) { return distance(name, a) < distance(name, b); }));
}

std::vector<std::string> unknown_variables(const std::vector<std::string_view>& variables) {
  std::vector<std::string> sentences;
  for (const std::string_view variable : variables) {
    const std::size_t end = std::min(variable.find('='), variable.size());
    const std::string_view name = variable.substr(0, end);
    const std::string_view value = end < variable.size() ? variable.substr(end + 1) : std::string_view();
    const std::string nearest = nearest_known_name(name);
    if (nearest.empty() || of_kubernetes(name, value)) continue;
    sentences.push_back("nothing reads " + std::string(name) +
                        " of the environment; the nearest known name is " + nearest);
  }
  std::sort(sentences.begin(), sentences.end());
  return sentences;
}

}  // namespace stepgate::gate

#include "integration/examples/charlm_report/show.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace stepgate::charlm_report {
namespace {

constexpr std::size_t kMostRows = 40;

template <typename... Values>
std::string print(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

// The one rank and the first parameter, or how many ranks it was.
std::string blamed(const Run& run, std::uint64_t step) {
  std::set<int> ranks;
  const Fault* first = nullptr;
  std::size_t parameters = 0;
  const std::vector<Fault> offenders = all_offenders(run);
  for (const Fault& fault : offenders) {
    if (fault.step != step) continue;
    if (first == nullptr) first = &fault;
    ranks.insert(fault.rank);
    ++parameters;
  }
  if (first == nullptr) return "";
  if (ranks.size() == run.ranks.size() && ranks.size() > 1) return "all ranks";
  if (ranks.size() > 1) return std::to_string(ranks.size()) + " ranks";
  std::string text = "rank " + std::to_string(first->rank) + ": " + first->kind + " in " + first->parameter;
  if (parameters > 1) text += " and " + std::to_string(parameters - 1) + " more";
  return text;
}

// First and last step, skips and their successors, steps with a new scale.
std::vector<std::size_t> worth_seeing(const std::vector<Step>& steps) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool edge = i == 0 || i + 1 == steps.size();
    if (edge || steps[i].skip || steps[i - 1].skip || steps[i].scale != steps[i - 1].scale) rows.push_back(i);
  }
  return rows;
}

std::string table_row(const Run& run, const Step& step) {
  const std::string norm = step.norm ? print("%.4f", *step.norm) : "-";
  const std::string decision = step.skip ? "skip (" + step.reason + ")" : "apply";
  return print("%8llu  %10.10g  %10s  %-12s  ", static_cast<unsigned long long>(step.step), step.scale,
               norm.c_str(), decision.c_str()) +
         (step.skip ? blamed(run, step.step) : "") + "\n";
}

// One value per column: the mean of the steps that fall into it.
std::vector<double> binned(const std::vector<double>& values, std::size_t columns) {
  std::vector<double> bins;
  columns = std::min(columns, values.size());
  for (std::size_t c = 0; c < columns; ++c) {
    const std::size_t first = values.size() * c / columns;
    const std::size_t last = values.size() * (c + 1) / columns;
    double sum = 0;
    for (std::size_t i = first; i < last; ++i) sum += values[i];
    bins.push_back(sum / static_cast<double>(last - first));
  }
  return bins;
}

}  // namespace

std::string step_table(const Run& run) {
  const std::vector<Step>& steps = run.ranks[0].steps;
  const std::vector<std::size_t> rows = worth_seeing(steps);
  std::string text = "    step       scale        norm  decision      blamed\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows.size() > kMostRows && i == kMostRows / 2) {
      text += print("     ... %zu more\n", rows.size() - kMostRows);
      i = rows.size() - kMostRows / 2;
    }
    text += table_row(run, steps[rows[i]]);
  }
  return text;
}

std::string loss_plot(const std::vector<double>& losses, std::size_t columns, std::size_t rows) {
  const std::vector<double> bins = binned(losses, columns);
  if (bins.empty()) return "";
  const double top = *std::max_element(bins.begin(), bins.end());
  const double bottom = *std::min_element(bins.begin(), bins.end());
  const double height = std::max(top - bottom, 1e-9) / static_cast<double>(rows - 1);
  std::string text;
  for (std::size_t r = 0; r < rows; ++r) {
    text += print("%8.3f |", top - height * static_cast<double>(r));
    for (const double value : bins)
      text += std::lround((top - value) / height) == static_cast<long>(r) ? '*' : ' ';
    while (text.back() == ' ') text.pop_back();
    text += "\n";
  }
  text += "         +" + std::string(bins.size(), '-') + "\n";
  return text + print("          step 1%*zu\n", static_cast<int>(std::max<std::size_t>(bins.size(), 8)) - 6,
                      losses.size());
}

std::string check_list(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks) {
    text += (check.holds ? "  ok      " : "  FAILED  ") + check.what;
    if (!check.detail.empty()) text += " (" + check.detail + ")";
    text += "\n";
  }
  return text;
}

}  // namespace stepgate::charlm_report

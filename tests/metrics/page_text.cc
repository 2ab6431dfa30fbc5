#include "tests/metrics/page_text.h"

#include <algorithm>
#include <set>
#include <sstream>

namespace stepgate::metrics::test {
namespace {

bool starts(const std::string& line, const char* with) {
  return line.rfind(with, 0) == 0;
}

// name{b="2",a="1"} -> name{a="1",b="2"}. Values in tests hold no commas.
std::string ordered_labels(const std::string& series) {
  const std::size_t open = series.find('{');
  if (open == std::string::npos) return series;
  std::set<std::string> labels;
  std::istringstream inside(series.substr(open + 1, series.size() - open - 2));
  for (std::string label; std::getline(inside, label, ',');) labels.insert(label);
  std::string all;
  for (const std::string& label : labels) all += (all.empty() ? "" : ",") + label;
  return series.substr(0, open) + "{" + all + "}";
}

}  // namespace

Samples samples(const std::string& page) {
  Samples all;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t space = line.rfind(' ');
    all[ordered_labels(line.substr(0, space))] = line.substr(space + 1);
  }
  return all;
}

std::string sample(const std::string& page, const std::string& name_and_labels) {
  const Samples all = samples(page);
  const auto it = all.find(name_and_labels);
  return it == all.end() ? "absent" : it->second;
}

bool has_family(const std::string& page, const std::string& family) {
  return page.find("# TYPE " + family + " ") != std::string::npos;
}

std::string in_order(const std::string& page) {
  std::string out;
  std::vector<std::string> block;
  bool histogram = false;
  const auto flush = [&] {
    if (!histogram) std::sort(block.begin(), block.end());
    for (const std::string& line : block) out += line + "\n";
    block.clear();
  };
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!starts(line, "#")) {
      const std::size_t space = line.rfind(' ');
      block.push_back(ordered_labels(line.substr(0, space)) + line.substr(space));
      continue;
    }
    flush();
    histogram = line.ends_with(" histogram");
    out += line + "\n";
  }
  flush();
  return out;
}

}  // namespace stepgate::metrics::test

#include "integration/examples/charlm_report/merge.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <tuple>

namespace stepgate::charlm_report {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

Step step_from(const json& entry) {
  Step step;
  step.step = entry.at("step");
  step.skip = entry.at("decision") == "skip";
  step.reason = entry.at("reason");
  step.scale = entry.at("scale");
  if (!entry.at("norm").is_null()) step.norm = entry.at("norm").get<double>();
  return step;
}

Fault fault_from(const json& entry) {
  return {entry.at("step"), entry.at("rank"), entry.at("kind"), entry.at("parameter")};
}

// A loss that is no number is null in the file.
double loss_from(const json& entry) {
  return entry.is_null() ? std::numeric_limits<double>::quiet_NaN() : entry.get<double>();
}

template <typename Read>
auto list_from(const json& entries, Read read) {
  std::vector<decltype(read(entries))> list;
  for (const json& entry : entries) list.push_back(read(entry));
  return list;
}

Rank rank_from(const json& file) {
  Rank rank;
  rank.rank = file.at("rank");
  rank.gated = file.at("gated");
  rank.steps = list_from(file.at("steps"), step_from);
  rank.offenders = list_from(file.at("offenders"), fault_from);
  rank.losses = list_from(file.at("loss"), loss_from);
  rank.weights_checksum = file.at("weights_checksum");
  rank.metrics_url = file.at("metrics");
  rank.seconds = file.at("seconds");
  return rank;
}

json read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  return json::parse(file);
}

ordered_json to_json(const Step& step) {
  ordered_json entry;
  entry["step"] = step.step;
  entry["decision"] = step.skip ? "skip" : "apply";
  entry["reason"] = step.reason;
  entry["scale"] = step.scale;
  entry["norm"] = step.norm ? ordered_json(*step.norm) : ordered_json(nullptr);
  return entry;
}

ordered_json to_json(const Fault& fault) {
  return {{"step", fault.step}, {"rank", fault.rank}, {"kind", fault.kind}, {"parameter", fault.parameter}};
}

ordered_json to_json(const Rank& rank) {
  ordered_json entry;
  entry["rank"] = rank.rank;
  entry["steps"] = ordered_json::array();
  for (const Step& step : rank.steps) entry["steps"].push_back(to_json(step));
  entry["weights_checksum"] = rank.weights_checksum;
  return entry;
}

}  // namespace

Run read_run(const std::string& prefix, int ranks) {
  Run run;
  for (int i = 0; i < ranks; ++i) {
    const std::string path = prefix + ".rank" + std::to_string(i);
    try {
      const json file = read_json(path);
      run.ranks.push_back(rank_from(file));
      // Every rank notes every injection, and has the same text.
      run.injections = list_from(file.at("injections"), fault_from);
      run.unigram_entropy = file.at("unigram_entropy");
    } catch (const json::exception& error) {
      throw std::runtime_error(path + ": " + error.what());
    }
  }
  return run;
}

std::vector<Fault> all_offenders(const Run& run) {
  std::vector<Fault> all;
  for (const Rank& rank : run.ranks) all.insert(all.end(), rank.offenders.begin(), rank.offenders.end());
  std::stable_sort(all.begin(), all.end(), [](const Fault& a, const Fault& b) {
    return std::tie(a.step, a.rank) < std::tie(b.step, b.rank);
  });
  return all;
}

std::vector<double> mean_losses(const Run& run) {
  std::size_t steps = std::numeric_limits<std::size_t>::max();
  for (const Rank& rank : run.ranks) steps = std::min(steps, rank.losses.size());
  std::vector<double> means(steps, 0.0);
  for (const Rank& rank : run.ranks) {
    for (std::size_t i = 0; i < steps; ++i) {
      means[i] += rank.losses[i] / static_cast<double>(run.ranks.size());
    }
  }
  return means;
}

double longest_seconds(const Run& run) {
  double longest = 0;
  for (const Rank& rank : run.ranks) longest = std::max(longest, rank.seconds);
  return longest;
}

ordered_json merged_json(const Run& run) {
  ordered_json merged;
  merged["ranks"] = ordered_json::array();
  for (const Rank& rank : run.ranks) merged["ranks"].push_back(to_json(rank));
  merged["offenders"] = ordered_json::array();
  for (const Fault& fault : all_offenders(run)) merged["offenders"].push_back(to_json(fault));
  merged["loss"] = mean_losses(run);
  merged["metrics"] = ordered_json::array();
  for (const Rank& rank : run.ranks) merged["metrics"].push_back(rank.metrics_url);
  merged["seconds"] = longest_seconds(run);
  return merged;
}

}  // namespace stepgate::charlm_report

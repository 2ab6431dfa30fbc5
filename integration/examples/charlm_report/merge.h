// Reads what each rank of charlm wrote about itself and puts it side by side.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace stepgate::charlm_report {

struct Step {
  std::uint64_t step = 0;
  bool skip = false;
  std::string reason;
  double scale = 0;
  std::optional<double> norm;
  bool operator==(const Step&) const = default;
};

// Who had (or was given) which fault.
struct Fault {
  std::uint64_t step = 0;
  int rank = 0;
  std::string kind;
  std::string parameter;
  bool operator==(const Fault&) const = default;
};

struct Rank {
  int rank = 0;
  bool gated = false;
  std::vector<Step> steps;
  std::vector<Fault> offenders;
  std::vector<double> losses;
  std::string weights_checksum;
  std::string metrics_url;
  double seconds = 0;
};

struct Run {
  std::vector<Rank> ranks;
  std::vector<Fault> injections;
  double unigram_entropy = 0;
};

// Files PREFIX.rank0 to PREFIX.rankN-1. Throws std::runtime_error naming the file.
Run read_run(const std::string& prefix, int ranks);

// Of all ranks, ordered by step and rank.
std::vector<Fault> all_offenders(const Run& run);
// Mean over the ranks, per step.
std::vector<double> mean_losses(const Run& run);
double longest_seconds(const Run& run);

// What --json promises: ranks, offenders, loss, metrics, seconds.
nlohmann::ordered_json merged_json(const Run& run);

}  // namespace stepgate::charlm_report

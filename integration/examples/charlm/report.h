// A rank's own account of its run, as JSON.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "integration/examples/charlm/judge.h"

namespace stepgate::charlm {

struct RankReport {
  unsigned rank = 0;
  unsigned world = 1;
  bool gated = false;
  bool cuda = false;
  std::uint64_t first_step = 1;
  std::vector<StepRow> steps;
  std::vector<OffenderRow> offenders;
  std::vector<Injection> injections;
  std::vector<double> losses;  // this rank's, one per step
  std::string weights_checksum;
  double unigram_entropy = 0;
  std::string metrics_url;
  double seconds = 0;
};

// 16 hexadecimal digits over the bits of the weights (FNV-1a).
std::string checksum(const std::vector<float>& weights);
std::string to_json(const RankReport& report);
// Appears under its name only when it is whole. Throws std::runtime_error.
void write_report(const std::string& path, const RankReport& report);

}  // namespace stepgate::charlm

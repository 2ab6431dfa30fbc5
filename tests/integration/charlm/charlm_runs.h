// Runs charlm as processes or threads on a small model and reads what every rank recorded.
//
// Thread: any. Order, lock: none. Ownership: values; files go with the object.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "integration/examples/charlm_report/merge.h"
#include "tests/integration/process.h"

namespace stepgate::test {

struct CharlmRun {
  Outcome outcome;
  charlm_report::Run run;  // of a run that succeeded
};

struct CharlmSetup {
  int ranks = 4;
  bool threads = false;
  bool plugin = true;
  std::vector<std::string> options = {};
  std::vector<std::string> launcher_options = {};
  std::map<std::string, std::string> variables = {};
  std::string program = charlm_path();
};

CharlmRun run_charlm(const CharlmSetup& setup);

// Small enough that 300 steps take seconds.
std::vector<std::string> small_model();

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b);

}  // namespace stepgate::test

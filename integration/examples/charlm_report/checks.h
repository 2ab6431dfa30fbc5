// What a run must show before anyone may call it good.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "integration/examples/charlm_report/merge.h"

namespace stepgate::charlm_report {

struct Check {
  std::string what;
  bool holds = false;
  std::string detail;  // figures, or what is wrong
};

struct Expectations {
  std::uint64_t steps = 0;      // 0: whatever the files hold
  bool model_overflow = false;  // the first skip must come from the model, not from an injection
};

std::vector<Check> check_run(const Run& run, const Expectations& expectations);
bool all_hold(const std::vector<Check>& checks);

}  // namespace stepgate::charlm_report

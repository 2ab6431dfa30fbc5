// The run as text: a table of the steps worth seeing, and the loss as a small plot.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <string>
#include <vector>

#include "integration/examples/charlm_report/checks.h"
#include "integration/examples/charlm_report/merge.h"

namespace stepgate::charlm_report {

// step, scale, norm, decision, blamed: every skip, what came right after, and changes of the scale.
std::string step_table(const Run& run);
std::string loss_plot(const std::vector<double>& losses, std::size_t columns = 72, std::size_t rows = 12);
std::string check_list(const std::vector<Check>& checks);

}  // namespace stepgate::charlm_report

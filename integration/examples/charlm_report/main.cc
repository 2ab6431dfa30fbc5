// charlm_report: what N ranks of charlm did, side by side; --json FILE keeps it. The exit status is
// 0 only when everything that such a run must show holds.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>

#include "integration/examples/charlm_report/checks.h"
#include "integration/examples/charlm_report/merge.h"
#include "integration/examples/charlm_report/scrape.h"
#include "integration/examples/charlm_report/show.h"

namespace {

using namespace stepgate::charlm_report;

constexpr const char* kHelp =
    "usage: charlm_report --files PREFIX --ranks N [--json FILE] [--steps N] [--expect-model-overflow]\n"
    "                     [--scrape]\n"
    "\n"
    "Reads PREFIX.rank0 ... as charlm --json PREFIX wrote them, prints the steps worth seeing, the loss\n"
    "and what holds. Exit status 0: all of it holds.\n"
    "\n"
    "  --json FILE                the merged records\n"
    "  --steps N                  every rank must have this many\n"
    "  --expect-model-overflow    the first skip must come from the model itself\n"
    "  --scrape                   also reads every rank's metrics page, which must still be up\n";

struct Options {
  std::string files;
  std::string json;
  int ranks = 0;
  Expectations expectations;
  bool scrape = false;
  bool help = false;
};

long positive(const std::string& name, const char* text) {
  char* end = nullptr;
  const long number = std::strtol(text, &end, 10);
  if (*end != '\0' || number < 1) {
    throw std::invalid_argument(name + " is '" + text + "'; allowed: a whole number from 1");
  }
  return number;
}

bool set_flag(const std::string& name, Options& options) {
  if (name == "--scrape") return options.scrape = true;
  if (name == "--expect-model-overflow") return options.expectations.model_overflow = true;
  if (name == "--help" || name == "-h") return options.help = true;
  return false;
}

void set_value(const std::string& name, const char* value, Options& options) {
  if (name == "--files") {
    options.files = value;
  } else if (name == "--json") {
    options.json = value;
  } else if (name == "--ranks") {
    options.ranks = static_cast<int>(positive(name, value));
  } else if (name == "--steps") {
    options.expectations.steps = static_cast<std::uint64_t>(positive(name, value));
  } else {
    throw std::invalid_argument("unknown option '" + name + "'; see charlm_report --help");
  }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (set_flag(name, options)) continue;
    if (i + 1 == argc) throw std::invalid_argument(name + " is unknown or needs a value");
    set_value(name, argv[++i], options);
  }
  if (!options.help && (options.files.empty() || options.ranks == 0)) {
    throw std::invalid_argument("--files and --ranks are needed; see charlm_report --help");
  }
  return options;
}

void write_json(const std::string& path, const Run& run) {
  std::ofstream file(path);
  file << merged_json(run).dump(1) << "\n";
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

Check scrape(const Rank& rank) {
  Check check{"rank " + std::to_string(rank.rank) + " serves its metrics", false, rank.metrics_url};
  if (rank.metrics_url.empty()) {
    check.detail = "it has no page";
    return check;
  }
  try {
    const std::string page = fetch_page(rank.metrics_url);
    check.holds = has_family(page, "stepgate_steps_total") && has_family(page, "stepgate_loss_scale");
    if (rank.rank == 0)
      std::printf("\n%s now says, among more:\n%s", rank.metrics_url.c_str(), excerpt(page).c_str());
  } catch (const std::runtime_error& error) {
    check.detail = error.what();
  }
  return check;
}

int report(const Options& options) {
  const Run run = read_run(options.files, options.ranks);
  if (!options.json.empty()) write_json(options.json, run);
  std::printf("\n%s\nloss, mean over the ranks\n%s", step_table(run).c_str(),
              loss_plot(mean_losses(run)).c_str());
  std::vector<Check> checks = check_run(run, options.expectations);
  if (options.scrape) {
    for (const Rank& rank : run.ranks) checks.push_back(scrape(rank));
  }
  std::printf("\n%s", check_list(checks).c_str());
  return all_hold(checks) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    if (options.help) return std::fputs(kHelp, stdout), 0;
    return report(options);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "charlm_report: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "charlm_report: %s\n", error.what());
    return 1;
  }
}

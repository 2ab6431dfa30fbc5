#include "integration/command/check/options.h"

#include "integration/command/arguments.h"

namespace stepgate::command {
namespace {

constexpr std::uint64_t kMostPid = 1 << 22;

double parse_seconds(std::string_view text) {
  const double seconds = parse_number("--seconds", text);
  if (!(seconds > 0 && seconds <= 86400)) bad_value("--seconds", text, "above 0, at most 86400");
  return seconds;
}

}  // namespace

CheckOptions parse_check_options(const std::vector<std::string_view>& words) {
  CheckOptions options;
  Arguments arguments(words);
  bool timed = false;
  while (arguments.at_option()) {
    const std::string_view option = arguments.take();
    if (option == "--help" || option == "-h") {
      options.help = true;
      return options;
    }
    if (option == "--json") {
      arguments.no_value();
      options.as_json = true;
    } else if (option == "--pid") {
      options.pid = static_cast<pid_t>(parse_count(option, arguments.value(), 1, kMostPid));
    } else if (option == "--seconds") {
      options.seconds = parse_seconds(arguments.value());
      timed = true;
    } else {
      bad_value("the option", option, "--json, --pid N, --seconds S, --help, -- PROGRAM");
    }
  }
  std::vector<std::string_view> rest = arguments.rest();
  if (!rest.empty() && rest.front() != "--") {
    bad_value("what follows check", rest.front(), "--json, --pid N, --help, -- PROGRAM");
  }
  if (!rest.empty()) options.program.assign(rest.begin() + 1, rest.end());
  if (!rest.empty() && options.program.empty()) throw UsageError("the program is missing: check -- PROGRAM");
  if (options.pid != 0 && !options.program.empty())
    throw UsageError("--pid and -- PROGRAM: only one of them");
  if (timed && options.program.empty()) throw UsageError("--seconds is for check -- PROGRAM");
  return options;
}

const char* check_help() noexcept {
  return "usage: stepgate check [--json] [--pid N | [--seconds S] -- PROGRAM args]\n"
         "\n"
         "Says whether this machine and this build fit: the plugin's files, the kernels that it carries, "
         "the\n"
         "CUDA driver, each device, NCCL, the settings as a rank reads them here, the metrics ports. What is "
         "missing has a\n"
         "remedy in the line below.\n"
         "\n"
         "  --pid N      also which NCCL the process N has loaded and whether the hooks catch its calls. "
         "The\n"
         "               process is neither stopped nor changed; its user or root may look\n"
         "  -- PROGRAM   the same of a program: it is run, with the plugin preloaded and its output on\n"
         "               standard error, and looked at when it ends, as is each process that it starts\n"
         "  --seconds S  the program is looked at and ended after S seconds (60)\n"
         "  --json       the same for programs\n"
         "\n"
         "Exit status: 0 all fits (host memory alone is fine), 1 something is wrong, 2 a wrong command "
         "line.\n";
}

}  // namespace stepgate::command

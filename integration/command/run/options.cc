#include "integration/command/run/options.h"

#include <cctype>

#include "integration/command/arguments.h"

namespace stepgate::command {
namespace {

constexpr unsigned kMostRanks = 1024;

bool is_variable_name(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
  for (const char c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  return true;
}

// What differs from rank to rank, or has an option of its own, is not the caller's to set.
bool is_reserved(std::string_view name) {
  static constexpr std::string_view kReserved[] = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
                                                   "LD_PRELOAD"};
  for (const std::string_view reserved : kReserved) {
    if (name == reserved) return true;
  }
  return false;
}

double parse_grace(std::string_view text) {
  const double seconds = parse_number("--grace", text);
  if (!(seconds >= 0 && seconds <= 3600)) bad_value("--grace", text, "seconds from 0 to 3600");
  return seconds;
}

void read_option(Arguments& arguments, RunOptions& options) {
  const std::string_view option = arguments.take();
  if (option == "-n" || option == "--ranks") {
    options.ranks = static_cast<unsigned>(parse_count(option, arguments.value(), 1, kMostRanks));
  } else if (option == "--mode") {
    options.mode = parse_mode(arguments.value());
  } else if (option == "--set") {
    options.settings.push_back(parse_setting(arguments.value()));
  } else if (option == "--nccl") {
    options.nccl = arguments.value();
    if (options.nccl.empty()) bad_value(option, "", "host, system, or a path");
  } else if (option == "--grace") {
    options.grace_seconds = parse_grace(arguments.value());
  } else if (option == "--plugin") {
    options.plugin_path = arguments.value();
    if (options.plugin_path.empty()) bad_value(option, "", "a path of libstepgate.so");
  } else if (option == "--no-plugin") {
    arguments.no_value();
    options.plugin = false;
  } else if (option == "--help" || option == "-h") {
    options.help = true;
  } else {
    throw UsageError("unknown option '" + std::string(option) + "'; see stepgate run --help");
  }
}

void check_together(const RunOptions& options) {
  if (options.mode.empty()) return;
  for (const auto& [name, value] : options.settings) {
    if (name == "STEPGATE_MODE") {
      bad_value("--set", name + "=" + value, "--mode " + options.mode + " or --set STEPGATE_MODE=, not both");
    }
  }
}

}  // namespace

std::pair<std::string, std::string> parse_setting(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || !is_variable_name(text.substr(0, equals))) {
    bad_value("--set", text, "NAME=VALUE with a name of letters, digits and _");
  }
  if (is_reserved(text.substr(0, equals))) {
    bad_value("--set", text, "any name but RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE and LD_PRELOAD");
  }
  return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

std::string parse_mode(std::string_view text) {
  if (text != "off" && text != "observe" && text != "enforce") {
    bad_value("--mode", text, "off, observe, enforce");
  }
  return std::string(text);
}

RunOptions parse_run_options(const std::vector<std::string_view>& words) {
  RunOptions options;
  Arguments arguments(words);
  while (arguments.at_option() && !options.help) read_option(arguments, options);
  if (options.help) return options;
  // The program begins at "--" or at the first word that is no option.
  std::vector<std::string_view> rest = arguments.rest();
  if (!rest.empty() && rest.front() == "--") rest.erase(rest.begin());
  options.program.assign(rest.begin(), rest.end());
  check_together(options);
  if (options.ranks == 0) throw UsageError("-n is missing: the number of ranks");
  if (options.program.empty()) throw UsageError("the program is missing: stepgate run -n N -- program args");
  return options;
}

const char* run_help() noexcept {
  return "usage: stepgate run -n N [options] -- program args\n"
         "\n"
         "Starts N ranks of a program on this machine, each with the plugin preloaded.\n"
         "\n"
         "  -n N, --ranks N    number of ranks, 1 to 1024\n"
         "  --mode M           off, observe or enforce (STEPGATE_MODE)\n"
         "  --set NAME=VALUE   sets a variable on the ranks; may be given again\n"
         "  --no-plugin        leaves the plugin out\n"
         "  --plugin PATH      this libstepgate.so instead of the one in lib beside the command's bin\n"
         "  --nccl WHICH       host: NCCL's interface on host memory; system: the one that the program\n"
         "                     finds by itself (by a path of its own too); or a path. Default: host where\n"
         "                     there is no GPU, else system\n"
         "  --grace SECONDS    between the first INT, TERM or failure and KILL for the ranks that are left "
         "(5)\n"
         "  --help             this text\n"
         "\n"
         "Each rank sees RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and\n"
         "STEPGATE_RUN_ID. Every output line is printed as [rank] line; one of more than 1 MiB is cut into\n"
         "several, each with the rank in front. If nobody reads the output any more, the ranks are ended "
         "and\n"
         "the exit status is 1; output that is lost for another reason, such as a full disk, gives 1 as "
         "well,\n"
         "after the ranks have gone on to their end.\n"
         "\n"
         "If a rank fails, the others are ended and the first failure is the launcher's exit status: the "
         "rank's\n"
         "own, or 128 + signal. A rank that ends well ends nobody, even if others still wait for it.\n"
         "INT and TERM are passed on to the ranks, HUP as TERM; those left after --grace are killed. A "
         "second one kills "
         "them\n"
         "at once, but within 0.5 s of the first it counts as the same one: timeout(1) and others signal a\n"
         "process and its group. Each rank is a process group; what a rank leaves running in it is killed "
         "at\n"
         "the end of the run. A process that has left its group (setsid) is not found.\n";
}

}  // namespace stepgate::command

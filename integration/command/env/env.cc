#include "integration/command/env/env.h"

#include <string>

#include "integration/command/arguments.h"
#include "integration/command/env/plan.h"
#include "integration/command/run/options.h"
#include "integration/command/streams.h"

namespace stepgate::command {
namespace {

constexpr const char* kHelp =
    "usage: stepgate env [torchrun | mpirun | srun] [options]\n"
    "\n"
    "Prints what the ranks of a launcher need to load the plugin, for a shell:\n"
    "\n"
    "  eval \"$(stepgate env torchrun)\"; torchrun --nproc-per-node 8 train.py\n"
    "  mpirun $(stepgate env mpirun --args) -n 16 ./train\n"
    "  srun $(stepgate env srun --args) ./train\n"
    "\n"
    "The plugin is added behind what LD_PRELOAD holds; nothing is replaced, and running the lines twice\n"
    "changes nothing. --args reaches the ranks alone, not the launcher and not your shell; Open MPI refuses\n"
    "to mix -x with mca_base_env_list. torchrun (the default) has no such option.\n"
    "\n"
    "  --mode M           off, observe or enforce (STEPGATE_MODE)\n"
    "  --set NAME=VALUE   one more variable; may be given again\n"
    "  --nccl WHICH       system (default): the NCCL that the program finds by itself; host: NCCL's\n"
    "                     interface on host memory; or a path\n"
    "  --plugin PATH      this libstepgate.so instead of the one in lib beside the command's bin\n"
    "  --args             options for mpirun or srun instead of lines for eval\n"
    "  --json             the same for programs\n"
    "  --help             this text\n";

struct Request {
  EnvOptions options;
  bool help = false;
  bool as_json = false;
  bool as_arguments = false;
};

Launcher parse_launcher(std::string_view word) {
  for (const Launcher launcher : {Launcher::kTorchrun, Launcher::kMpirun, Launcher::kSrun}) {
    if (word == launcher_name(launcher)) return launcher;
  }
  bad_value("the launcher", word, "torchrun, mpirun, srun");
}

void read_option(Arguments& arguments, Request& request) {
  const std::string_view option = arguments.take();
  if (option == "--mode") {
    request.options.mode = parse_mode(arguments.value());
  } else if (option == "--set") {
    request.options.settings.push_back(parse_setting(arguments.value()));
  } else if (option == "--nccl") {
    request.options.nccl = arguments.value();
    if (request.options.nccl.empty()) bad_value(option, "", "host, system, or a path");
  } else if (option == "--plugin") {
    request.options.plugin_path = arguments.value();
    if (request.options.plugin_path.empty()) bad_value(option, "", "a path of libstepgate.so");
  } else if (option == "--args" || option == "--json") {
    arguments.no_value();
    (option == "--args" ? request.as_arguments : request.as_json) = true;
  } else if (option == "--help" || option == "-h") {
    request.help = true;
  } else {
    throw UsageError("unknown option '" + std::string(option) + "'; see stepgate env --help");
  }
}

Request read_request(const std::vector<std::string_view>& words) {
  Request request;
  Arguments arguments(words);
  bool named = false;
  while (!arguments.done() && !request.help) {
    if (arguments.at_option()) {
      read_option(arguments, request);
      continue;
    }
    const std::string_view word = arguments.take();
    if (named) throw UsageError("one launcher only; '" + std::string(word) + "' is a second one");
    request.options.launcher = parse_launcher(word);
    named = true;
  }
  if (request.help) return request;
  if (request.as_arguments && request.as_json) throw UsageError("--args and --json: only one of them");
  if (request.as_arguments && request.options.launcher == Launcher::kTorchrun) {
    throw UsageError("--args: torchrun has no option for variables; allowed: mpirun, srun, or no --args");
  }
  for (const auto& [name, value] : request.options.settings) {
    if (name == "STEPGATE_MODE" && !request.options.mode.empty()) {
      bad_value("--set", name + "=" + value, "--mode or --set STEPGATE_MODE=, not both");
    }
  }
  return request;
}

}  // namespace

int env_main(const std::vector<std::string_view>& words) {
  const Request request = read_request(words);
  if (request.help) {
    print(kHelp);
    return 0;
  }
  const EnvPlan plan = plan_environment(request.options, find_installation());
  if (request.as_json) {
    print(as_json(plan).c_str());
  } else if (request.as_arguments) {
    print(as_arguments(plan, Environment::inherited()).c_str());
  } else {
    print(as_shell(plan).c_str());
  }
  return 0;
}

}  // namespace stepgate::command

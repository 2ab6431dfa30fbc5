// stepgate: the command. One subcommand per file; this one only hands over.
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "integration/command/arguments.h"
#include "integration/command/check/check.h"
#include "integration/command/env/env.h"
#include "integration/command/run/run.h"
#include "integration/command/simulate.h"
#include "integration/command/state/state.h"
#include "integration/command/streams.h"

namespace {

constexpr const char* kHelp =
    "usage: stepgate COMMAND ...\n"
    "\n"
    "  run -n N [options] -- program args   starts N local ranks with the plugin\n"
    "  simulate --rule R ... PATTERN        the loss scale after each step of a pattern\n"
    "  check [--pid N | -- program args]    what fits, what is missing, whether the hooks catch a job\n"
    "  env [torchrun | mpirun | srun]       what to export so that a launcher's ranks load the plugin\n"
    "  state show [--json] FILE             what a saved state holds\n"
    "\n"
    "stepgate COMMAND --help tells more. stepgate --version prints the version.\n";

int print_alone(const char* text, const std::vector<std::string_view>& words) {
  using namespace stepgate::command;
  if (words.size() > 1) bad_value("what follows " + std::string(words[0]), words[1], "nothing");
  print(text);
  return 0;
}

int dispatch(const std::vector<std::string_view>& words) {
  using namespace stepgate::command;
  if (words.empty())
    throw UsageError("a command is missing; allowed: run, simulate, check, env, state, --help, --version");
  const std::vector<std::string_view> rest(words.begin() + 1, words.end());
  if (words[0] == "run") return run_main(rest);
  if (words[0] == "simulate") return simulate_main(rest);
  if (words[0] == "check") return check_main(rest);
  if (words[0] == "env") return env_main(rest);
  if (words[0] == "state") return state_main(rest);
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") return print_alone(kHelp, words);
  if (words[0] == "--version") return print_alone("stepgate " STEPGATE_COMMAND_VERSION "\n", words);
  bad_value("the command", words[0], "run, simulate, check, env, state, --help, --version");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    stepgate::command::hold_standard_streams();
    return dispatch(std::vector<std::string_view>(argv + 1, argv + argc));
  } catch (const stepgate::command::UsageError& error) {
    std::fprintf(stderr, "stepgate: %s\n", error.what());
    return stepgate::command::kUsageStatus;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stepgate: %s\n", error.what());
    return 1;
  }
}

#include "integration/command/run/run.h"

#include <cstdio>
#include <system_error>

#include "integration/command/run/environment.h"
#include "integration/command/run/options.h"
#include "integration/command/run/supervisor.h"
#include "integration/command/streams.h"
#include "plugin/core/config_names.h"

namespace stepgate::command {
namespace {

// As shells report a program that they cannot run.
constexpr int kNotFoundStatus = 127;
constexpr int kNotStartedStatus = 126;

// A warning only: another version of the plugin may know the name.
void warn_of_unknown(const RunOptions& options) {
  for (const auto& setting : options.settings) {
    const std::string nearest = gate::nearest_known_name(setting.first);
    if (nearest.empty()) continue;
    std::fprintf(stderr, "stepgate run: nothing reads %s (--set); the nearest known name is %s\n",
                 setting.first.c_str(), nearest.c_str());
  }
}

}  // namespace

int run_main(const std::vector<std::string_view>& words) {
  const RunOptions options = parse_run_options(words);
  if (options.help) {
    print(run_help());
    return 0;
  }
  warn_of_unknown(options);
  Environment environment = shared_environment(options, find_installation());
  Supervisor supervisor{std::chrono::duration<double>(options.grace_seconds)};
  for (unsigned rank = 0; rank < options.ranks; ++rank) {
    set_rank(environment, rank, options.ranks);
    try {
      supervisor.add(
          start_rank(rank, options.program, environment.strings(), supervisor.out(), supervisor.err()));
    } catch (const std::system_error& error) {
      std::fprintf(stderr, "stepgate run: %s\n", error.what());
      return error.code() == std::errc::no_such_file_or_directory ? kNotFoundStatus : kNotStartedStatus;
    }
  }
  return supervisor.run();
}

}  // namespace stepgate::command

#include "integration/command/run/run.h"

#include <cstdio>
#include <optional>
#include <system_error>

#include "integration/command/run/environment.h"
#include "integration/command/run/options.h"
#include "integration/command/run/supervisor.h"

namespace stepgate::command {
namespace {

// As shells report a program that they cannot run.
constexpr int kNotFoundStatus = 127;
constexpr int kNotStartedStatus = 126;

}  // namespace

int run_main(const std::vector<std::string_view>& words) {
  const RunOptions options = parse_run_options(words);
  if (options.help) {
    std::fputs(run_help(), stdout);
    return 0;
  }
  Environment environment = shared_environment(options, find_installation());
  Supervisor supervisor{std::chrono::duration<double>(options.grace_seconds)};
  for (unsigned rank = 0; rank < options.ranks; ++rank) {
    set_rank(environment, rank, options.ranks);
    try {
      supervisor.add(start_rank(rank, options.program, environment.strings()));
    } catch (const std::system_error& error) {
      std::fprintf(stderr, "stepgate run: %s\n", error.what());
      return error.code() == std::errc::no_such_file_or_directory ? kNotFoundStatus : kNotStartedStatus;
    }
  }
  const std::optional<Failure> failure = supervisor.run();
  return failure ? failure->status : 0;
}

}  // namespace stepgate::command

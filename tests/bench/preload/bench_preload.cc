// What the preload adds to a process that has no use for it.
//
//   bench_preload [--pairs N] [--program PATH]       default: 500 pairs of `true`
//
// Runs the program in pairs, once plainly and once with libstepgate.so in LD_PRELOAD, the order changing
// from pair to pair, and prints medians as JSON: of both, and of the differences within pairs. The exit
// status is 1 where the latter is over the limit of 1 ms.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr double kLimitMs = 1.0;

struct Options {
  int pairs = 500;
  std::string program = "/bin/true";
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "bench_preload: %s\n", what.c_str());
  std::exit(2);
}

// Milliseconds from the spawn to the end.
double run_ms(const std::string& program, char** environment) {
  char* const words[] = {const_cast<char*>(program.c_str()), nullptr};
  const auto begin = std::chrono::steady_clock::now();
  pid_t pid = 0;
  if (posix_spawn(&pid, words[0], nullptr, nullptr, words, environment) != 0) fail("cannot run " + program);
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || status != 0) fail(program + " failed");
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc || (name != "--pairs" && name != "--program")) {
      fail("allowed: --pairs N, --program PATH; given: " + name);
    }
    if (name == "--program") options.program = argv[i + 1];
    if (name == "--pairs") options.pairs = static_cast<int>(std::strtol(argv[i + 1], nullptr, 10));
  }
  if (options.pairs < 1 || options.pairs > 100000) fail("--pairs: allowed: 1 to 100000");
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::string preload = "LD_PRELOAD=" BENCH_SHIM;
  std::string mode = "STEPGATE_MODE=enforce";
  char* const plain_environment[] = {mode.data(), nullptr};
  char* const preloaded_environment[] = {mode.data(), preload.data(), nullptr};
  for (int i = 0; i < 20; ++i) {  // both in the page cache
    run_ms(options.program, const_cast<char**>(i % 2 != 0 ? plain_environment : preloaded_environment));
  }
  std::vector<double> plain, preloaded, added;
  for (int i = 0; i < options.pairs; ++i) {
    double one[2];
    for (int turn = 0; turn < 2; ++turn) {
      const int which = (i + turn) % 2;
      one[which] =
          run_ms(options.program, const_cast<char**>(which == 0 ? plain_environment : preloaded_environment));
    }
    plain.push_back(one[0]);
    preloaded.push_back(one[1]);
    added.push_back(one[1] - one[0]);
  }
  const double added_ms = median(added);
  std::printf(
      "{\"benchmark\": \"preload\", \"program\": \"%s\", \"pairs\": %d, \"plain_ms\": %.4f, "
      "\"preloaded_ms\": %.4f, \"added_ms\": %.4f, \"limit_ms\": %.1f, \"within\": %s}\n",
      options.program.c_str(), options.pairs, median(plain), median(preloaded), added_ms, kLimitMs,
      added_ms < kLimitMs ? "true" : "false");
  return added_ms < kLimitMs ? 0 : 1;
}

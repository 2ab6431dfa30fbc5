// What manners_test.cc runs with libstepgate.so preloaded: a job that is linked to NCCL alone.
//
//   guest_worker MODE FOLDER RANK WORLD      modes.h says what each mode does
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/plugin/guest/modes.h"

namespace {

struct Mode {
  const char* name;
  int (*run)(const stepgate::test::Where&);
};

constexpr Mode kModes[] = {
    {"calls", stepgate::test::mode_calls},
    {"fork", stepgate::test::mode_fork},
    {"exit_order", stepgate::test::mode_exit_order},
    {"busy_exit", stepgate::test::mode_busy_exit},
    {"refused_exit", stepgate::test::mode_refused_exit},
    {"hung_files", stepgate::test::mode_hung_files},
    {"wait", stepgate::test::mode_wait},
    {"setuid", stepgate::test::mode_setuid},
};

int number(const char* text) {
  return static_cast<int>(std::strtol(text, nullptr, 10));
}

}  // namespace

int main(int argc, char** argv) {
  alarm(90);
  for (const Mode& mode : kModes) {
    if (argc == 5 && std::strcmp(argv[1], mode.name) == 0) {
      return mode.run({argv[2], number(argv[3]), number(argv[4])});
    }
  }
  std::printf("usage: guest_worker MODE FOLDER RANK WORLD\n");
  return 2;
}

// A job whose metrics folder lies on a file system that does not answer any more.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/plugin/guest/modes.h"

namespace {

std::atomic<bool> hangs{false};

}  // namespace

// Of the whole process: what would be moved into GUEST_HUNG_FOLDER never gets there.
extern "C" __attribute__((visibility("default"))) int rename(const char* from, const char* to) noexcept {
  const char* folder = std::getenv("GUEST_HUNG_FOLDER");
  if (folder == nullptr || std::strncmp(to, folder, std::strlen(folder)) != 0) {
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
  }
  hangs = true;
  for (;;) pause();
}

namespace stepgate::test {

int mode_hung_files(const Where& where) {
  Job job(where);
  while (!hangs) usleep(1000);  // alarm() is the deadline
  job.step();
  stepgate_gate_config config{};
  config.size = sizeof config;
  config.name = "second";
  stepgate_gate* second = nullptr;
  need(stepgate_client_gate_create(&config, &second) == STEPGATE_OK, "a second gate");
  job.step();
  need(job.scraped_with("stepgate_steps_total{gate=\"0\"} 2"), "a page");
  need(stepgate_client_gate_destroy(second) == STEPGATE_OK, "gate_destroy");
  std::printf("goes on\n");
  return 7;
}

}  // namespace stepgate::test

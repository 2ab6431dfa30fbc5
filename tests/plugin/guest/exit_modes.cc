// How a process ends that the plugin lives in.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/plugin/guest/modes.h"

namespace stepgate::test {
namespace {

Job* the_job = nullptr;

// Made before main, gone after every handler: also by then, calls answer.
struct LastOfAll {
  ~LastOfAll() {
    if (the_job == nullptr) return;
    float x = 2;
    ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, the_job->comm(), nullptr);
    double scale = 0;
    stepgate_client_scale(the_job->gate(), &scale);
    std::printf("static destructor, %g\n", static_cast<double>(x));
    std::fflush(stdout);
  }
} last_of_all;

// Registered before start-up, so it runs when the plugin has shut its page.
void registered_early() {
  float x = 3;
  ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, the_job->comm(), nullptr);
  stepgate_client_step_begin(the_job->gate(), nullptr);
  char url[100] = "page";
  stepgate_client_metrics_url(url, sizeof url);
  std::printf("early handler, page '%s', %g\n", url, static_cast<double>(x));
}

// Registered after start-up, so it runs while everything still works.
void registered_late() {
  the_job->step();
  std::printf("late handler, scraped %d\n", the_job->scraped(2) ? 1 : 0);
}

}  // namespace

int mode_exit_order(const Where& where) {
  std::atexit(registered_early);
  the_job = new Job(where);
  std::atexit(registered_late);
  the_job->step();
  return 7;
}

// The other threads are in the middle of hooks and steps when the process ends.
int mode_busy_exit(const Where& where) {
  static std::atomic<int> turns{0};
  Job* const job = new Job(where);
  std::thread([job] {
    for (;;) {
      job->step();
      ++turns;
    }
  }).detach();
  std::thread([] {
    ncclComm_t comm = nullptr;
    ncclUniqueId id{};
    need(ncclGetUniqueId(&id) == ncclSuccess && ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess, "comm");
    for (float x = 0;; ++turns) ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr);
  }).detach();
  while (turns < 2000) usleep(1000);
  std::exit(7);
}

namespace {

// Refused, with a sentence that no small buffer holds; then others that fail, each with its own.
void refused_at_exit() {
  const stepgate_status status = stepgate_client_enforce_end(nullptr, nullptr);
  std::printf("handler: %s: %s\n", stepgate_client_status_string(status), stepgate_client_last_error());
}

}  // namespace

int mode_refused_exit(const Where& where) {
  std::atexit(refused_at_exit);
  the_job = new Job(where);
  stepgate_gate_config config{};
  config.size = sizeof config;
  const std::string rule(500, 'x');
  config.rule = rule.c_str();
  stepgate_gate* gate = nullptr;
  need(stepgate_client_gate_create(&config, &gate) == STEPGATE_INVALID, "a rule that there is not");
  std::printf("refused: %d\n", std::string(stepgate_client_last_error()).find(rule) != std::string::npos);
  return 7;
}

int mode_wait(const Where& where) {
  the_job = new Job(where);
  the_job->step();
  need(the_job->scraped(1), "a page before the end");
  the_job->meet();
  std::printf("ready\n");
  std::fflush(stdout);
  for (;;) pause();
}

// glibc asks every thread, the plugin's too, and waits for each answer.
int mode_setuid(const Where& where) {
  Job job(where);
  job.step();
  constexpr uid_t kNobody = 65534;
  need(setgid(kNobody) == 0 && setuid(kNobody) == 0, "setuid");
  for (int i = 0; i < 3; ++i) job.step();
  need(job.scraped(4), "a page with fewer rights");
  std::printf("goes on as %d\n", static_cast<int>(getuid()));
  return 0;
}

}  // namespace stepgate::test

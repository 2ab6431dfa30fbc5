// Children after start-up: each must end by itself, and none may reach what belongs to its parent.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/plugin/guest/forked_child.h"
#include "tests/plugin/guest/modes.h"

namespace stepgate::test {
namespace {

// Forks, runs body in the locked child, waits. Prints "child NAME STATUS".
template <class Body>
void child(const char* name, Body body) {
  std::fflush(stdout);
  const pid_t pid = fork();
  need(pid >= 0, "fork");
  if (pid == 0) {
    alarm(20);  // a hang is a status of its own
    lock_in_child();
    body();
    std::exit(0);
  }
  int status = 0;
  need(waitpid(pid, &status, 0) == pid, "waitpid");
  std::printf("child %s %d\n", name, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

// Every call is refused with a sentence, and none of them waits for anybody.
void use_everything(Job& job) {
  stepgate_gate* mine = nullptr;
  double scale = 0;
  char url[200] = "";
  const bool refused = stepgate_client_step_begin(job.gate(), nullptr) == STEPGATE_FAILED &&
                       stepgate_client_scale(job.gate(), &scale) == STEPGATE_FAILED &&
                       stepgate_client_step_end(job.gate(), 0, nullptr) == STEPGATE_FAILED &&
                       stepgate_client_gate_create(nullptr, &mine) == STEPGATE_FAILED &&
                       stepgate_client_external_scale(job.gate(), nullptr) == STEPGATE_FAILED &&
                       stepgate_client_observe(job.gate(), "child", job.gradient().data(), 8, STEPGATE_FP32,
                                               STEPGATE_PHASE_LOSS, nullptr) == STEPGATE_FAILED &&
                       stepgate_client_gate_destroy(job.gate()) == STEPGATE_FAILED;
  if (!refused) std::exit(4);
  if (std::strstr(stepgate_client_last_error(), "forked") == nullptr) std::exit(5);
  stepgate_client_metrics_url(url, sizeof url);
  float* const data = job.gradient().data();
  if (ncclAllReduce(data, data, job.gradient().size(), ncclFloat32, ncclSum, job.comm(), nullptr) ==
      ncclSuccess)
    std::exit(6);
  ncclComm_t comm = nullptr;
  ncclUniqueId id{};
  if (ncclGetUniqueId(&id) == ncclSuccess) std::exit(7);
  if (ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess) std::exit(8);
  ncclCommAbort(job.comm());
}

void grandchild() {
  const pid_t pid = fork();
  if (pid == 0) std::exit(0);
  int status = -1;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) std::exit(9);
  if (status != 0) std::exit(10);
}

void children(Job& job) {
  child("exits", [] {});
  child("leaves at once", [] { _exit(0); });
  child("uses everything", [&] { use_everything(job); });
  child("has a child", grandchild);
  child("returns through quick_exit", [] { std::quick_exit(0); });
  child("runs another program", [] { execlp("true", "true", static_cast<char*>(nullptr)); });
}

}  // namespace

int mode_fork(const Where& where) {
  Job job(where);
  job.step();
  need(job.scraped(1), "a page before the children");
  job.meet();
  children(job);
  for (int i = 0; i < 5; ++i) job.step();
  need(job.scraped(6), "a page after the children");
  std::printf("parent goes on\n");
  return 0;
}

}  // namespace stepgate::test

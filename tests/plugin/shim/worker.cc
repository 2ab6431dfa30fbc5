// What preload_test.cc runs with libstepgate.so preloaded: a job of threads that is linked to NCCL alone
// and reaches the plugin through the header-only client.
//
//   shim_worker train   two ranks, one step each with a NaN on rank 1; prints what became of it
//   shim_worker create  one communicator and one gate; prints the answer
//   shim_worker fork    a gate with its page, then a child that uses it and exits
//   shim_worker plain   communicators and reductions only
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"
#include "stepgate/client.h"
#include "tests/plugin/whole_range.h"

namespace {

[[noreturn]] void die(const char* what) {
  std::printf("failed: %s: %s; %s\n", what, stepgate_client_last_error(), ncclGetLastError(nullptr));
  std::fflush(stdout);
  std::_Exit(1);
}
void need(bool condition, const char* what) {
  if (!condition) die(what);
}

ncclUniqueId fresh_id() {
  ncclUniqueId id{};
  need(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
  return id;
}

ncclComm_t alone() {
  ncclComm_t comm = nullptr;
  need(ncclCommInitRank(&comm, 1, fresh_id(), 0) == ncclSuccess, "ncclCommInitRank");
  return comm;
}

void train_rank(int rank, const ncclUniqueId& id, stepgate_decision* out) {
  ncclComm_t comm = nullptr;
  need(ncclCommInitRank(&comm, 2, id, rank) == ncclSuccess, "ncclCommInitRank");
  stepgate_gate_config config{};
  config.size = sizeof config;
  config.world = 2;
  config.rank = rank;
  stepgate_gate* gate = nullptr;
  need(stepgate_client_gate_create(&config, &gate) == STEPGATE_OK, "gate_create");
  need(stepgate_client_add_group(gate, comm, 0) == STEPGATE_OK, "add_group");
  std::vector<float> data = {1, rank == 1 ? NAN : 1.0f};
  const stepgate_segment segment{nullptr, data.data(), data.size()};
  const stepgate_range range = stepgate::test::whole_range("bucket", segment);
  std::uint32_t range_id = 0;
  need(stepgate_client_declare_range(gate, &range, &range_id) == STEPGATE_OK, "declare_range");
  need(stepgate_client_enforce_begin(gate, nullptr) == STEPGATE_OK, "enforce_begin");
  need(stepgate_client_step_begin(gate, nullptr) == STEPGATE_OK, "step_begin");
  need(ncclAllReduce(data.data(), data.data(), 2, ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess,
       "ncclAllReduce");
  need(stepgate_client_step_end(gate, 0, nullptr) == STEPGATE_OK, "step_end");
  out->size = sizeof *out;
  need(stepgate_client_step_wait(gate, 0, out) == STEPGATE_OK, "step_wait");
  need(stepgate_client_gate_destroy(gate) == STEPGATE_OK, "gate_destroy");
  need(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
}

int train() {
  const ncclUniqueId id = fresh_id();
  stepgate_decision decisions[2]{};
  std::thread other(train_rank, 1, id, &decisions[1]);
  train_rank(0, id, &decisions[0]);
  other.join();
  for (const stepgate_decision& d : decisions) {
    std::printf("skip %d reason %d offender %d\n", d.skip, d.reason, d.offender);
  }
  return 0;
}

int create() {
  ncclComm_t comm = alone();
  stepgate_gate* gate = nullptr;
  const stepgate_status status = stepgate_client_gate_create(nullptr, &gate);
  std::printf("create %s: %s\n", stepgate_client_status_string(status), stepgate_client_last_error());
  char url[100] = "none";
  std::printf("url %s '%s'\n", stepgate_client_status_string(stepgate_client_metrics_url(url, sizeof url)),
              url);
  float look = 1;
  const stepgate_status looked =
      stepgate_client_observe(gate, "look", &look, 1, STEPGATE_FP32, STEPGATE_PHASE_LOSS, nullptr);
  std::printf("observe %s: %s\n", stepgate_client_status_string(looked), stepgate_client_last_error());
  need(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
  return 0;
}

// A job without standard streams: status 0 where nothing of the plugin's has become one of them. Which they
// are now is told on the descriptor that standard output was.
int closed_streams() {
  ncclComm_t comm = alone();  // NCCL's own descriptors are not the plugin's affair
  const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(stream);
  stepgate_gate* gate = nullptr;
  need(stepgate_client_gate_create(nullptr, &gate) == STEPGATE_OK, "gate_create");
  char url[100] = "";
  need(stepgate_client_metrics_url(url, sizeof url) == STEPGATE_OK && *url != '\0', "metrics_url");
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    char name[256] = "";
    const std::string link = "/proc/self/fd/" + std::to_string(stream);
    if (readlink(link.c_str(), name, sizeof name - 1) < 0) std::strcpy(name, "closed");
    dprintf(out, "stream %d %s\n", stream, name);
  }
  need(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
  return 0;
}

int plain() {
  for (int i = 0; i < 3; ++i) {
    ncclComm_t comm = alone();
    float x = 2;
    need(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess && x == 2,
         "ncclAllReduce");
    need(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
  }
  std::printf("plain job done\n");
  return 0;
}

// The child may neither hang at its exit nor touch what belongs to its parent.
int in_child(stepgate_gate* gate) {
  stepgate_gate* mine = nullptr;
  double scale = 0;
  const bool failed = stepgate_client_step_begin(gate, nullptr) == STEPGATE_FAILED &&
                      stepgate_client_scale(gate, &scale) == STEPGATE_FAILED &&
                      stepgate_client_gate_create(nullptr, &mine) == STEPGATE_FAILED &&
                      stepgate_client_gate_destroy(gate) == STEPGATE_FAILED;
  const bool said = std::strstr(stepgate_client_last_error(), "forked") != nullptr;
  return failed && said ? 0 : 1;
}

int fork_between() {
  ncclComm_t comm = alone();
  stepgate_gate* gate = nullptr;
  need(stepgate_client_gate_create(nullptr, &gate) == STEPGATE_OK, "gate_create");
  char url[100] = "";
  need(stepgate_client_metrics_url(url, sizeof url) == STEPGATE_OK && *url != '\0', "metrics_url");
  need(stepgate_client_add_group(gate, comm, 0) == STEPGATE_OK, "add_group");
  need(stepgate_client_enforce_begin(gate, nullptr) == STEPGATE_OK, "enforce_begin");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    std::exit(in_child(gate));
  }
  int status = -1;
  need(waitpid(child, &status, 0) == child, "waitpid");
  std::printf("child %d\n", status);
  need(stepgate_client_step_begin(gate, nullptr) == STEPGATE_OK, "step_begin in the parent");
  need(stepgate_client_step_end(gate, 0, nullptr) == STEPGATE_OK, "step_end in the parent");
  need(stepgate_client_metrics_url(url, sizeof url) == STEPGATE_OK && *url != '\0', "metrics_url afterwards");
  std::printf("parent goes on\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  alarm(60);
  const char* mode = argc == 2 ? argv[1] : "";
  if (std::strcmp(mode, "train") == 0) return train();
  if (std::strcmp(mode, "create") == 0) return create();
  if (std::strcmp(mode, "fork") == 0) return fork_between();
  if (std::strcmp(mode, "plain") == 0) return plain();
  if (std::strcmp(mode, "closed") == 0) return closed_streams();
  std::printf("usage: shim_worker train | create | fork | plain | closed\n");
  return 2;
}

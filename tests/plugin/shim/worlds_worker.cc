// What worlds_test.cc runs with libstepgate.so preloaded: four threads as ranks of a job that is linked to
// NCCL alone, has more than one communicator, and reaches the plugin through the header-only client.
//
//   worlds_worker mesh     two rows and two columns; no communicator of all ranks is given to the gate
//   worlds_worker shrink   rank 2 aborts; the others shrink the communicator and go on
//
// Every rank prints its decisions, in a line of its own.
#include <unistd.h>

#include <barrier>
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

constexpr int kRanks = 4, kLost = 2;

void need(bool condition, const char* what) {
  if (condition) return;
  std::printf("failed: %s: %s; %s\n", what, stepgate_client_last_error(), ncclGetLastError(nullptr));
  std::fflush(stdout);
  std::_Exit(1);
}

// One rank: its gate, and a gradient that all ranks reduce.
struct Member {
  int rank;
  ncclComm_t comm;
  stepgate_gate* gate = nullptr;
  std::vector<float> gradient{0, 0};
  std::string said;

  Member(int r, const ncclUniqueId& id) : rank(r), comm(nullptr) {
    need(ncclCommInitRank(&comm, kRanks, id, rank) == ncclSuccess, "ncclCommInitRank");
    stepgate_gate_config config{};
    config.size = sizeof config;
    config.world = kRanks;
    config.rank = rank;
    config.rule = "none";
    need(stepgate_client_gate_create(&config, &gate) == STEPGATE_OK, "gate_create");
    const stepgate_segment segment{"weight", gradient.data(), gradient.size()};
    const stepgate_range range = stepgate::test::whole_range("bucket", segment, rank == 0);
    std::uint32_t id_of_range = 0;
    need(stepgate_client_declare_range(gate, &range, &id_of_range) == STEPGATE_OK, "declare_range");
  }

  void add(ncclComm_t group) { need(stepgate_client_add_group(gate, group, 0) == STEPGATE_OK, "add_group"); }
  void activate() { need(stepgate_client_enforce_begin(gate, nullptr) == STEPGATE_OK, "enforce_begin"); }

  void step(ncclComm_t all, float mine) {
    gradient = {mine, 0};
    need(stepgate_client_step_begin(gate, nullptr) == STEPGATE_OK, "step_begin");
    ncclAllReduce(gradient.data(), gradient.data(), 2, ncclFloat32, ncclSum, all, nullptr);
    stepgate_client_step_end(gate, 0, nullptr);
    stepgate_decision d{};
    d.size = sizeof d;
    const stepgate_status status = stepgate_client_step_wait(gate, 0, &d);
    char line[100];
    std::snprintf(line, sizeof line, "%s skip %d offender %d norm %g; ",
                  stepgate_client_status_string(status), d.skip, d.offender, d.skip != 0 ? 0 : d.norm);
    said += line;
  }
};

ncclComm_t split(ncclComm_t comm, int color, int key) {
  ncclComm_t child = nullptr;
  need(ncclCommSplit(comm, color, key, &child, nullptr) == ncclSuccess, "ncclCommSplit");
  return child;
}

void mesh(Member& m) {
  ncclComm_t row = split(m.comm, m.rank / 2, m.rank), column = split(m.comm, m.rank % 2, m.rank);
  m.add(row);
  m.add(column);
  m.activate();
  m.step(m.comm, 1);
  m.step(m.comm, m.rank == 3 ? NAN : 1);
  need(stepgate_client_gate_destroy(m.gate) == STEPGATE_OK, "gate_destroy");
  for (ncclComm_t c : {row, column, m.comm}) need(ncclCommDestroy(c) == ncclSuccess, "ncclCommDestroy");
}

void shrink(Member& m, std::barrier<>& all) {
  m.add(m.comm);
  m.activate();
  m.step(m.comm, 1);
  all.arrive_and_wait();  // a sum that one rank has may still be under way to another
  if (m.rank == kLost) {
    need(ncclCommAbort(m.comm) == ncclSuccess, "ncclCommAbort");
    return;
  }
  m.step(m.comm, 1);
  int gone = kLost;
  ncclComm_t rest = nullptr;
  need(ncclCommShrink(m.comm, &gone, 1, &rest, nullptr, NCCL_SHRINK_ABORT) == ncclSuccess, "ncclCommShrink");
  need(ncclCommAbort(m.comm) == ncclSuccess, "ncclCommAbort");
  int world = 0, rank = -1;
  need(ncclCommCount(rest, &world) == ncclSuccess && ncclCommUserRank(rest, &rank) == ncclSuccess, "count");
  need(stepgate_client_reset_world(m.gate, 1, world, world) == STEPGATE_INVALID, "a rank outside");
  need(stepgate_client_reset_world(m.gate, 1, 0, 0) == STEPGATE_INVALID, "a world of none");
  need(stepgate_client_reset_world(m.gate, 1, world, rank) == STEPGATE_OK, "reset_world");
  m.add(rest);
  m.activate();
  m.step(rest, 1);
  m.step(rest, m.rank == 3 ? INFINITY : 1);
  need(stepgate_client_gate_destroy(m.gate) == STEPGATE_OK, "gate_destroy");
  need(ncclCommDestroy(rest) == ncclSuccess, "ncclCommDestroy");
}

}  // namespace

int main(int argc, char** argv) {
  alarm(60);
  const bool meshed = argc == 2 && std::strcmp(argv[1], "mesh") == 0;
  if (!meshed && (argc != 2 || std::strcmp(argv[1], "shrink") != 0)) {
    std::printf("usage: worlds_worker mesh | shrink\n");
    return 2;
  }
  ncclUniqueId id{};
  need(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
  std::vector<std::string> said(kRanks);
  std::barrier<> all(kRanks);
  std::vector<std::thread> ranks;
  for (int r = 0; r < kRanks; ++r) {
    ranks.emplace_back([&, r] {
      Member m(r, id);
      meshed ? mesh(m) : shrink(m, all);
      said[static_cast<std::size_t>(r)] = m.said;
    });
  }
  for (std::thread& t : ranks) t.join();
  for (int r = 0; r < kRanks; ++r) std::printf("%d: %s\n", r, said[static_cast<std::size_t>(r)].c_str());
  return 0;
}

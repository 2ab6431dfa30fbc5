// A rank whose steps are its own: what the plane does is seen without a collective that would take the
// other ranks down with a dead one. It is linked to NCCL alone and preloaded with the plugin.
//
//   plane_worker FOLDER [offend STEP | together]
//
// A step every 20 ms until FOLDER/stop exists; with `offend` three of four parameters hold a NaN or an
// inf in that step. FOLDER/fork.N asks rank N for a child that lives on. Rank 0 prints its page's address,
// and the job's offenders once there are some. With `together` it is a job after all: one communicator and
// one agreement of all of mpirun's ranks, as many as the gate finds in its environment.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"
#include "stepgate/client.h"

namespace {

constexpr const char* kNames[] = {"wte", "wq", "wk", "ln"};

void need(bool condition, const char* what) {
  if (condition) return;
  std::printf("failed: %s: %s\n", what, stepgate_client_last_error());
  std::fflush(stdout);
  std::_Exit(1);
}

bool exists(const std::string& path) {
  return std::filesystem::exists(path);
}

int number(const char* name) {
  const char* text = std::getenv(name);
  need(text != nullptr, name);
  return static_cast<int>(std::strtol(text, nullptr, 10));
}

// Rank 0's id, by a file that appears whole.
ncclUniqueId shared_id(const std::string& folder, int rank) {
  ncclUniqueId id{};
  const std::string path = folder + "/id";
  if (rank == 0) {
    need(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
    std::ofstream(path + ".new", std::ios::binary).write(id.internal, sizeof id.internal);
    std::filesystem::rename(path + ".new", path);
  }
  for (int i = 0; !exists(path) && i < 6000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::ifstream(path, std::ios::binary).read(id.internal, sizeof id.internal);
  return id;
}

ncclComm_t communicator(const std::string& folder, bool together) {
  const int rank = together ? number("OMPI_COMM_WORLD_RANK") : 0;
  const int size = together ? number("OMPI_COMM_WORLD_SIZE") : 1;
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  if (together) {
    id = shared_id(folder, rank);
  } else {
    need(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
  }
  need(ncclCommInitRank(&comm, size, id, rank) == ncclSuccess, "ncclCommInitRank");
  return comm;
}

// Without `together` the gate agrees with itself; to the plane the process is one rank of several.
struct Rank {
  ncclComm_t comm;
  stepgate_gate* gate = nullptr;
  std::vector<float> data = std::vector<float>(4, 1.0f);

  Rank(const std::string& folder, bool together) : comm(communicator(folder, together)) {
    stepgate_gate_config config{};
    config.size = sizeof config;
    config.world = together ? 0 : 1;
    need(stepgate_client_gate_create(&config, &gate) == STEPGATE_OK, "gate_create");
    need(stepgate_client_add_group(gate, comm, 0) == STEPGATE_OK, "add_group");
    std::vector<stepgate_segment> segments;
    for (std::size_t i = 0; i < data.size(); ++i) segments.push_back({kNames[i], &data[i], 1});
    stepgate_range range{};
    range.size = sizeof range;
    range.name = "bucket";
    range.segments = segments.data();
    range.segment_count = segments.size();
    range.compute_type = -1;
    std::uint32_t id = 0;
    need(stepgate_client_declare_range(gate, &range, &id) == STEPGATE_OK, "declare_range");
    need(stepgate_client_enforce_begin(gate, nullptr) == STEPGATE_OK, "enforce_begin");
  }

  void step(bool bad) {
    need(stepgate_client_step_begin(gate, nullptr) == STEPGATE_OK, "step_begin");
    data.assign(4, 1.0f);
    if (bad) data = {NAN, 1.0f, std::numeric_limits<float>::infinity(), NAN};
    need(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr) ==
             ncclSuccess,
         "ncclAllReduce");
    need(stepgate_client_step_end(gate, 0, nullptr) == STEPGATE_OK, "step_end");
  }
};

// Whether any rank has been asked to stop: all of them end in the same step.
bool asked_to_stop(ncclComm_t comm, const std::string& folder) {
  std::int32_t asked = exists(folder + "/stop") ? 1 : 0;
  need(ncclAllReduce(&asked, &asked, 1, ncclInt32, ncclMax, comm, nullptr) == ncclSuccess, "ncclAllReduce");
  return asked != 0;
}

// True once there are some and they are printed.
bool print_offenders(stepgate_gate* gate, std::size_t wanted) {
  std::vector<stepgate_offender> list(64);
  list[0].size = sizeof list[0];
  std::size_t count = list.size();
  if (stepgate_client_job_offenders(gate, 0, list.data(), &count) != STEPGATE_OK || count < wanted)
    return false;
  for (std::size_t i = 0; i < count; ++i) {
    std::printf("offender step %llu rank %d %s/%s nan %llu inf %llu\n",
                static_cast<unsigned long long>(list[i].step), list[i].rank, list[i].range, list[i].parameter,
                static_cast<unsigned long long>(list[i].nan), static_cast<unsigned long long>(list[i].inf));
  }
  std::printf("offenders done\n");
  std::fflush(stdout);
  return true;
}

void leave_a_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int i = 0; i < 600; ++i) ::sleep(1);
    ::_exit(0);
  }
  std::printf("child %d\n", static_cast<int>(child));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  const long offend = argc > 3 ? std::strtol(argv[3], nullptr, 10) : 0;
  const char* name = std::getenv("OMPI_COMM_WORLD_RANK");
  const std::string rank_text = name != nullptr ? name : "none";
  Rank rank(folder, argc > 2 && std::strcmp(argv[2], "together") == 0);
  char url[100] = "";
  stepgate_client_metrics_url(url, sizeof url);
  std::printf("page %s\n", url);
  std::fflush(stdout);
  bool printed = rank_text != "0", forked = false;
  for (long step = 1; !asked_to_stop(rank.comm, folder); ++step) {
    rank.step(step == offend);
    if (!printed) printed = print_offenders(rank.gate, 6);
    if (!forked && exists(folder + "/fork." + rank_text)) {
      forked = true;
      leave_a_child();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  need(stepgate_client_gate_destroy(rank.gate) == STEPGATE_OK, "gate_destroy");
  need(ncclCommDestroy(rank.comm) == ncclSuccess, "ncclCommDestroy");
  std::printf("done\n");
  return 0;
}

// One rank that reduces over communicators with and without names: 2^i times over the i-th of them.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"
#include "collectives/nccl_abi/nccl_structs.h"

namespace {

constexpr std::size_t kElements = 5000;

void need(ncclResult_t code, const char* what) {
  if (code == ncclSuccess) return;
  std::printf("failed: %s: %s\n", what, ncclGetLastError(nullptr));
  std::fflush(stdout);
  std::_Exit(1);
}

ncclConfig_t named(const char* name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = name;
  return config;
}

ncclUniqueId fresh_id() {
  ncclUniqueId id{};
  need(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

ncclComm_t create(const char* name) {
  ncclConfig_t config = named(name);
  ncclComm_t comm = nullptr;
  need(ncclCommInitRankConfig(&comm, 1, fresh_id(), 0, &config), "ncclCommInitRankConfig");
  return comm;
}

ncclComm_t create_unnamed() {
  ncclComm_t comm = nullptr;
  need(ncclCommInitRank(&comm, 1, fresh_id(), 0), "ncclCommInitRank");
  return comm;
}

ncclComm_t split(ncclComm_t parent, ncclConfig_t* config) {
  ncclComm_t comm = nullptr;
  need(ncclCommSplit(parent, 0, 0, &comm, config), "ncclCommSplit");
  return comm;
}

// What a program says that was built with a header of before the name.
ncclConfig_t old_config() {
  ncclConfig_t config = named("never read");
  config.size = offsetof(ncclConfig_t, commName);
  config.version = 22600;
  return config;
}

ncclComm_t split_in_group(ncclComm_t parent, const char* name) {
  ncclConfig_t config = named(name);
  ncclComm_t comm = nullptr;
  need(ncclGroupStart(), "ncclGroupStart");
  need(ncclCommSplit(parent, 0, 0, &comm, &config), "ncclCommSplit");
  std::printf("the handle is %s\n", comm == nullptr ? "late" : "there");
  need(ncclGroupEnd(), "ncclGroupEnd");
  return comm;
}

}  // namespace

int main() {
  std::vector<ncclComm_t> comms;
  comms.push_back(create_unnamed());
  comms.push_back(create("data"));
  comms.push_back(create("tensor"));
  comms.push_back(split(comms[1], nullptr));
  ncclConfig_t nameless = NCCL_CONFIG_INITIALIZER;
  comms.push_back(split(comms[1], &nameless));
  comms.push_back(split_in_group(comms[1], "data.late"));
  ncclConfig_t old = old_config();
  comms.push_back(split(comms[1], &old));
  std::vector<float> x(kElements, 1.0f);
  for (std::size_t i = 0; i < comms.size(); ++i) {
    for (std::size_t times = std::size_t{1} << i; times > 0; --times) {
      need(ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat32, ncclSum, comms[i], nullptr),
           "ncclAllReduce");
    }
  }
  for (const ncclComm_t comm : comms) need(ncclCommDestroy(comm), "ncclCommDestroy");
  return 0;
}

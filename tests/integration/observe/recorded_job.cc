// A job that calls each of NCCL's functions with arguments of its own, over the recording NCCL; rank 0 of 2
// as that one says. It prints what the calls returned.
//
//   recorded_job
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"

extern "C" void recording_nccl_name(const void* memory, std::size_t bytes, const char* name);

namespace {

constexpr std::size_t kElements = 4096, kLoss = 1;
constexpr std::size_t kBad = 13;  // the recording NCCL refuses that many

// What a call may be given, each known to the recorder by its name.
struct Memory {
  float first[2 * kElements], second[2 * kElements];
  char streams[2];
  ncclComm_t comms[8];
  ncclRedOp_t op;
  float scalar;
  int excluded, config, info, devices;
  ncclResult_t state;
  ncclUniqueId id;
} m;

#define KNOWN(member) recording_nccl_name(&m.member, sizeof m.member, #member)

void introduce() {
  KNOWN(first), KNOWN(second), KNOWN(streams), KNOWN(comms), KNOWN(op), KNOWN(scalar), KNOWN(excluded);
  KNOWN(config), KNOWN(info), KNOWN(devices), KNOWN(state), KNOWN(id);
}

void returned(ncclResult_t result) {
  std::printf("%d ", static_cast<int>(result));
}

cudaStream_t stream(int i) {
  return reinterpret_cast<cudaStream_t>(&m.streams[i]);
}
ncclConfig_t* config() {
  return reinterpret_cast<ncclConfig_t*>(&m.config);
}

void create() {
  returned(ncclGetUniqueId(&m.id));
  returned(ncclCommInitRank(&m.comms[0], 2, m.id, 0));
  returned(ncclCommInitRankConfig(&m.comms[1], 2, m.id, 0, config()));
  returned(ncclCommInitRankScalable(&m.comms[2], 2, 0, 1, &m.id, config()));
  returned(ncclCommInitAll(&m.comms[3], 1, &m.devices));
  returned(ncclCommSplit(m.comms[0], 1, 0, &m.comms[4], nullptr));
  returned(ncclCommShrink(m.comms[0], &m.excluded, 1, &m.comms[5], config(), NCCL_SHRINK_DEFAULT));
}

void reduce(ncclComm_t comm) {
  returned(ncclGroupStart());
  returned(ncclAllReduce(m.first, m.first, kElements, ncclFloat32, ncclSum, comm, stream(0)));
  returned(ncclAllReduce(m.first, m.second, kElements, ncclBfloat16, ncclAvg, comm, stream(1)));
  returned(ncclGroupEnd());
  returned(
      ncclReduceScatter(m.first, m.second + kElements, kElements, ncclFloat8e5m2, ncclSum, comm, nullptr));
  returned(ncclReduce(m.first, m.first, kElements, ncclFloat32, ncclSum, 0, comm, stream(0)));
  returned(ncclReduce(m.first, nullptr, kElements, ncclFloat32, ncclSum, 1, comm, stream(0)));
  returned(ncclAllReduce(&m.scalar, &m.scalar, kLoss, ncclFloat32, ncclMax, comm, stream(1)));
  returned(ncclAllReduce(m.first, m.second, kBad, ncclFloat32, ncclSum, comm, stream(1)));
  returned(ncclRedOpCreatePreMulSum(&m.op, &m.scalar, ncclFloat32, ncclScalarHostImmediate, comm));
  returned(ncclAllReduce(m.second, m.second, 2 * kElements, ncclFloat32, m.op, comm, stream(0)));
  returned(ncclRedOpDestroy(m.op, comm));
}

void move(ncclComm_t comm) {
  returned(ncclAllGather(m.first, m.second, kElements, ncclFloat32, comm, stream(0)));
  returned(ncclAlltoAll(m.first, m.second, kElements, ncclFloat32, comm, stream(1)));
  returned(ncclGather(m.first, m.second, kElements, ncclFloat16, 1, comm, stream(0)));
  returned(ncclScatter(m.first, m.second, kElements, ncclFloat32, 0, comm, stream(0)));
  returned(ncclBroadcast(m.first, m.second, kElements, ncclInt8, 1, comm, stream(0)));
  returned(ncclBcast(m.first, kElements, ncclFloat32, 0, comm, nullptr));
  returned(ncclGroupStart());
  returned(ncclSend(m.first, kElements, ncclFloat32, 1, comm, stream(1)));
  returned(ncclRecv(m.second, kElements, ncclFloat32, 1, comm, stream(1)));
  returned(ncclGroupEnd());
  returned(ncclGroupStart());
  returned(ncclAllReduce(m.first, m.first, kElements, ncclFloat64, ncclSum, comm, stream(0)));
  returned(ncclGroupSimulateEnd(reinterpret_cast<ncclSimInfo_t*>(&m.info)));
}

// A reduction that a helper thread of NCCL launches, asked for until it is done.
void wait_for(ncclComm_t comm) {
  returned(ncclAllReduce(m.first, m.first, kElements, ncclFloat32, ncclSum, comm, stream(0)));
  do {
    returned(ncclCommGetAsyncError(comm, &m.state));
  } while (m.state == ncclInProgress);
}

void end() {
  returned(ncclCommFinalize(m.comms[0]));
  returned(ncclCommDestroy(m.comms[0]));
  returned(ncclCommRevoke(m.comms[1], NCCL_REVOKE_DEFAULT));
  returned(ncclCommAbort(m.comms[1]));
  for (int i = 2; i < 6; ++i) returned(ncclCommDestroy(m.comms[i]));
}

}  // namespace

int main() {
  alarm(60);
  introduce();
  create();
  for (int step = 0; step < 5; ++step) {
    for (float& x : m.first) x = static_cast<float>(step + 1);
    reduce(m.comms[0]);
    reduce(m.comms[4]);
    move(m.comms[2]);
    wait_for(m.comms[1]);
  }
  end();
  std::printf("\n");
  return 0;
}

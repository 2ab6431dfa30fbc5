// An NCCL that does next to nothing and writes down every call: the function, and every argument. A test
// compares what a job asked of it with what arrived here.
//
// Each line of the file that RECORDING_NCCL names is a call. Memory that the job has introduced with
// recording_nccl_name() goes by that name and an offset, so that lines of two processes compare; any other is
// "unknown memory". Communicators go by their number. As NVIDIA's, it offers weak ncclX with strong pncclX.
//
// A communicator of ncclCommInitRankConfig does not block: its reductions are in progress until it has been
// asked once. Calls of 13 elements fail.
//
// Threads: any; one lock. Ownership: communicators are numbers in a fixed array.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"

#define EXPORTED __attribute__((visibility("default")))

namespace {

struct Place {
  const char* from;
  std::size_t bytes;
  std::string name;
};

struct Recorder {
  std::mutex mutex;
  std::vector<Place> places;
  char comms[64] = {};  // a communicator is the address of one of these
  bool waits[64] = {};  // does not block
  bool in_progress[64] = {};
  int made = 0;
};

Recorder& recorder() {
  static auto* const r = new Recorder;  // calls may come after every destructor
  return *r;
}

ncclComm_t new_comm(bool waits) {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  r.waits[r.made] = waits;
  return reinterpret_cast<ncclComm_t>(&r.comms[r.made++]);
}

int number_of(const void* comm) {
  return static_cast<int>(static_cast<const char*>(comm) - recorder().comms);
}

std::string said(const void* p) {
  if (p == nullptr) return "NULL";
  const auto* at = static_cast<const char*>(p);
  for (const Place& k : recorder().places) {
    if (at >= k.from && at < k.from + k.bytes) return k.name + "+" + std::to_string(at - k.from);
  }
  return "unknown memory";
}
std::string said(ncclComm_t comm) {
  return comm == nullptr ? "no comm" : "comm " + std::to_string(number_of(comm));
}
std::string said(const ncclUniqueId& id) {
  return "id " + std::to_string(static_cast<int>(id.internal[0]));
}
template <class Number>
requires std::is_arithmetic_v<Number> || std::is_enum_v<Number> std::string said(Number n) {
  return std::to_string(static_cast<long long>(n));
}

void write_line(const std::string& line) {
  static const int file = [] {
    const char* name = std::getenv("RECORDING_NCCL");
    return name == nullptr ? -1 : open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }();
  if (write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
}

template <class... Arguments>
ncclResult_t record(const char* function, const Arguments&... arguments) {
  const std::lock_guard lock(recorder().mutex);
  std::string line = function;
  ((line += ", " + said(arguments)), ...);
  write_line(line + "\n");
  return ncclSuccess;
}

ncclResult_t reduction_result(std::size_t count, ncclComm_t comm) {
  if (count == 13) return ncclInvalidArgument;
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  const int n = number_of(comm);
  if (r.waits[n]) r.in_progress[n] = true;
  return r.waits[n] ? ncclInProgress : ncclSuccess;
}

}  // namespace

extern "C" EXPORTED void recording_nccl_name(const void* memory, std::size_t bytes, const char* name) {
  const std::lock_guard lock(recorder().mutex);
  recorder().places.push_back({static_cast<const char*>(memory), bytes, name});
}

#define API(name, parameters)                                                                         \
  extern "C" EXPORTED ncclResult_t pnccl##name parameters;                                            \
  extern "C" EXPORTED __attribute__((weak, alias("pnccl" #name))) ncclResult_t nccl##name parameters; \
  ncclResult_t pnccl##name parameters
// One that only writes itself down.
#define PLAIN(name, parameters, ...)                 \
  API(name, parameters) {                            \
    return record(#name __VA_OPT__(, ) __VA_ARGS__); \
  }
#define REDUCTION(name, parameters, ...)  \
  API(name, parameters) {                 \
    record(#name, __VA_ARGS__);           \
    return reduction_result(count, comm); \
  }
#define CREATION(name, parameters, waits, ...) \
  API(name, parameters) {                      \
    record(#name, __VA_ARGS__);                \
    *comm = new_comm(waits);                   \
    return ncclSuccess;                        \
  }

using From = const void*;
using Type = ncclDataType_t;
using Op = ncclRedOp_t;
using Count = std::size_t;
using Stream = cudaStream_t;
using Config = ncclConfig_t*;

// ---- questions
API(GetVersion, (int* version)) {
  record("GetVersion", version);
  *version = 22809;
  return ncclSuccess;
}
API(CommCount, (const ncclComm_t comm, int* count)) {
  record("CommCount", comm, count);
  *count = 2;
  return ncclSuccess;
}
API(CommUserRank, (const ncclComm_t comm, int* rank)) {
  record("CommUserRank", comm, rank);
  *rank = 0;
  return ncclSuccess;
}
API(CommCuDevice, (const ncclComm_t comm, int* device)) {
  record("CommCuDevice", comm, device);
  *device = 0;
  return ncclSuccess;
}
API(CommGetAsyncError, (ncclComm_t comm, ncclResult_t* state)) {
  record("CommGetAsyncError", comm, state);
  const std::lock_guard lock(recorder().mutex);
  bool& busy = recorder().in_progress[number_of(comm)];
  *state = busy ? ncclInProgress : ncclSuccess;
  busy = false;
  return ncclSuccess;
}
extern "C" EXPORTED const char* ncclGetErrorString(ncclResult_t result) {
  record("GetErrorString", result);
  return "";
}
extern "C" EXPORTED const char* ncclGetLastError(ncclComm_t comm) {
  record("GetLastError", comm);
  return "";
}

// ---- communicators
API(GetUniqueId, (ncclUniqueId * id)) {
  record("GetUniqueId", id);
  std::memset(id, 7, sizeof *id);
  return ncclSuccess;
}
CREATION(CommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank), false, comm, ranks, id,
         rank)
CREATION(CommInitRankConfig, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, Config config), true,
         comm, ranks, id, rank, config)
CREATION(CommInitRankScalable,
         (ncclComm_t * comm, int ranks, int rank, int ids, ncclUniqueId* id, Config config), false, comm,
         ranks, rank, ids, id, config)
CREATION(CommInitAll, (ncclComm_t * comm, int devices, const int* list), false, comm, devices, list)
CREATION(CommSplit, (ncclComm_t from, int color, int key, ncclComm_t* comm, Config config), false, from,
         color, key, comm, config)
CREATION(CommShrink, (ncclComm_t from, int* excluded, int count, ncclComm_t* comm, Config config, int flags),
         false, from, excluded, count, comm, config, flags)
PLAIN(CommFinalize, (ncclComm_t comm), comm)
PLAIN(CommDestroy, (ncclComm_t comm), comm)
PLAIN(CommAbort, (ncclComm_t comm), comm)
PLAIN(CommRevoke, (ncclComm_t comm, int flags), comm, flags)
PLAIN(CommRegister, (const ncclComm_t comm, void* memory, Count bytes, void** handle), comm, memory, bytes,
      handle)
PLAIN(CommDeregister, (const ncclComm_t comm, void* handle), comm, handle)
PLAIN(CommWindowRegister, (ncclComm_t comm, void* memory, Count bytes, ncclWindow_t* window, int flags), comm,
      memory, bytes, window, flags)
PLAIN(CommWindowDeregister, (ncclComm_t comm, ncclWindow_t window), comm, window)
PLAIN(MemAlloc, (void** memory, Count bytes), memory, bytes)
PLAIN(MemFree, (void* memory), memory)

// ---- operators
API(RedOpCreatePreMulSum,
    (Op * op, void* scalar, Type type, ncclScalarResidence_t residence, ncclComm_t comm)) {
  record("RedOpCreatePreMulSum", op, scalar, type, residence, comm);
  *op = static_cast<Op>(ncclNumOps + 2);
  return ncclSuccess;
}
PLAIN(RedOpDestroy, (Op op, ncclComm_t comm), op, comm)

// ---- reductions and movements
REDUCTION(AllReduce, (From send, void* recv, Count count, Type type, Op op, ncclComm_t comm, Stream stream),
          send, recv, count, type, op, comm, stream)
REDUCTION(ReduceScatter,
          (From send, void* recv, Count count, Type type, Op op, ncclComm_t comm, Stream stream), send, recv,
          count, type, op, comm, stream)
REDUCTION(Reduce,
          (From send, void* recv, Count count, Type type, Op op, int root, ncclComm_t comm, Stream stream),
          send, recv, count, type, op, root, comm, stream)
REDUCTION(AllGather, (From send, void* recv, Count count, Type type, ncclComm_t comm, Stream stream), send,
          recv, count, type, comm, stream)
REDUCTION(AlltoAll, (From send, void* recv, Count count, Type type, ncclComm_t comm, Stream stream), send,
          recv, count, type, comm, stream)
REDUCTION(Gather, (From send, void* recv, Count count, Type type, int root, ncclComm_t comm, Stream stream),
          send, recv, count, type, root, comm, stream)
REDUCTION(Scatter, (From send, void* recv, Count count, Type type, int root, ncclComm_t comm, Stream stream),
          send, recv, count, type, root, comm, stream)
REDUCTION(Broadcast,
          (From send, void* recv, Count count, Type type, int root, ncclComm_t comm, Stream stream), send,
          recv, count, type, root, comm, stream)
REDUCTION(Bcast, (void* buffer, Count count, Type type, int root, ncclComm_t comm, Stream stream), buffer,
          count, type, root, comm, stream)
REDUCTION(Send, (From send, Count count, Type type, int peer, ncclComm_t comm, Stream stream), send, count,
          type, peer, comm, stream)
REDUCTION(Recv, (void* recv, Count count, Type type, int peer, ncclComm_t comm, Stream stream), recv, count,
          type, peer, comm, stream)
API(GroupStart, ()) {
  return record("GroupStart");
}
API(GroupEnd, ()) {
  return record("GroupEnd");
}
PLAIN(GroupSimulateEnd, (ncclSimInfo_t * info), info)

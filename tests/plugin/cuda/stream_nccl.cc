#include "tests/plugin/cuda/stream_nccl.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "tests/collectives/device/scan_oracle.h"

namespace stepgate::test {

using device::cuda::DevicePtr;
using device::cuda::Result;
using device::cuda::StreamHandle;

struct StreamNccl::Call {
  StreamNccl* nccl = nullptr;
  Comm* comm = nullptr;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  device::Stream stream = nullptr;
  unsigned char* staging = nullptr;  // pinned
  int number = 0;                    // of the rank's calls, in the order of issue
  int runs = 0;                      // a recorded one runs at every replay

  std::size_t bytes() const;
};

struct StreamNccl::Comm {
  StreamNccl* nccl = nullptr;
  int rank = 0;
  int device = 0;
  device::cuda::ContextHandle context = nullptr;
  void* pinned = nullptr;
  std::vector<Call> calls;
  std::atomic<int> issued{0};
  std::atomic<unsigned> delay{0};
  std::atomic<int> pending{0};
  std::vector<std::thread> helpers;
  struct {
    StreamNccl* nccl;
    int rank;
  } second{};  // what second_comm() points to
};

namespace {

thread_local int nccl_depth = 0;

ElementType element_type(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16: return ElementType::kFp16;
    case ncclBfloat16: return ElementType::kBf16;
    case ncclFloat64: return ElementType::kFp64;
    default: return ElementType::kFp32;
  }
}

class InContext {
 public:
  InContext(const device::cuda::Driver& driver, device::cuda::ContextHandle context) : driver_(driver) {
    driver_.call(driver_.api().CtxPushCurrent, context);
  }
  ~InContext() {
    device::cuda::ContextHandle popped = nullptr;
    driver_.call(driver_.api().CtxPopCurrent, &popped);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  const device::cuda::Driver& driver_;
};

DevicePtr address(const void* p) {
  return static_cast<DevicePtr>(reinterpret_cast<std::uintptr_t>(p));
}

std::vector<double> values(const unsigned char* bytes, std::size_t count, ncclDataType_t type) {
  std::vector<double> v;
  v.reserve(count);
  for (const std::uint64_t e : unpack(element_type(type), bytes, count)) {
    v.push_back(decode(element_type(type), e));
  }
  return v;
}

void store(unsigned char* to, const std::vector<double>& v, ncclDataType_t type) {
  const std::vector<unsigned char> bytes = pack(element_type(type), encode_all(element_type(type), v));
  std::memcpy(to, bytes.data(), v.size() * element_size(element_type(type)));
}

}  // namespace

std::size_t StreamNccl::Call::bytes() const {
  return count * element_size(element_type(type));
}

namespace {

std::vector<int> first_devices(int count) {
  std::vector<int> devices;
  for (int d = 0; d < count; ++d) devices.push_back(d);
  return devices;
}

}  // namespace

StreamNccl::StreamNccl(int ranks, std::shared_ptr<device::cuda::Driver> driver)
    : StreamNccl(first_devices(ranks), std::move(driver)) {}

StreamNccl::StreamNccl(const std::vector<int>& devices, std::shared_ptr<device::cuda::Driver> driver)
    : ranks_(static_cast<int>(devices.size())), driver_(std::move(driver)) {
  const auto& api = driver_->api();
  for (int r = 0; r < ranks_; ++r) {
    auto comm = std::make_unique<Comm>();
    comm->nccl = this;
    comm->rank = r;
    comm->second = {this, r};
    comm->device = devices[static_cast<std::size_t>(r)];
    EXPECT_EQ(driver_->call(api.DevicePrimaryCtxRetain, &comm->context, comm->device), Result::kSuccess);
    {
      const InContext scope(*driver_, comm->context);
      EXPECT_EQ(driver_->call(api.MemHostAlloc, &comm->pinned, kMaxBytes * kCallsPerRank, 0u),
                Result::kSuccess);
    }
    comm->calls.resize(kCallsPerRank);
    comms_.push_back(std::move(comm));
  }
}

StreamNccl::~StreamNccl() {
  const auto& api = driver_->api();
  for (const auto& comm : comms_) {
    for (std::thread& t : comm->helpers) t.join();
    {
      const InContext scope(*driver_, comm->context);
      driver_->call(api.MemFreeHost, comm->pinned);
    }
    driver_->call(api.DevicePrimaryCtxRelease, comm->device);
  }
}

ncclComm_t StreamNccl::comm(int rank) {
  return reinterpret_cast<ncclComm_t>(comms_[static_cast<std::size_t>(rank)].get());
}

ncclComm_t StreamNccl::second_comm(int rank) {
  return reinterpret_cast<ncclComm_t>(&comms_[static_cast<std::size_t>(rank)]->second);
}

void StreamNccl::set_delay(int rank, unsigned microseconds) {
  comms_[static_cast<std::size_t>(rank)]->delay = microseconds;
}

void StreamNccl::fail(int rank, int call) {
  const std::lock_guard lock(mutex_);
  failing_[{rank, call}] = true;
}

int StreamNccl::calls(int rank) const {
  return comms_[static_cast<std::size_t>(rank)]->issued;
}

int StreamNccl::expected(int meeting) const {
  int n = ranks_;
  for (const auto& [key, failing] : failing_) n -= failing && key.second == meeting;
  return n;
}

void StreamNccl::run(void* call) {
  auto* c = static_cast<Call*>(call);
  c->nccl->meet(*c);
}

void StreamNccl::meet(Call& call) {
  std::unique_lock lock(mutex_);
  const int index = call.number;
  Meeting& m = meetings_[{index, call.runs++}];
  m.sent[call.comm->rank] = values(call.staging, call.count, call.type);
  changed_.notify_all();
  const bool all = changed_.wait_for(lock, std::chrono::seconds(60),
                                     [&] { return static_cast<int>(m.sent.size()) >= expected(index); });
  EXPECT_TRUE(all) << "rank " << call.comm->rank << " waited in vain in meeting " << index;
  std::vector<double> sum(call.count, 0.0);
  for (const auto& [rank, sent] : m.sent) {
    EXPECT_EQ(sent.size(), sum.size()) << "ranks reduce different numbers of elements in meeting " << index;
    for (std::size_t i = 0; i < std::min(sent.size(), sum.size()); ++i) sum[i] += sent[i];
  }
  store(call.staging, sum, call.type);
}

// As NCCL itself does, it works on the communicator's device whatever the calling thread's is.
ncclResult_t StreamNccl::enqueue(Call& call) {
  const InContext scope(*driver_, call.comm->context);
  const auto& api = driver_->api();
  const auto stream = static_cast<StreamHandle>(call.stream);
  const bool done =
      driver_->call(api.MemcpyDtoHAsync, static_cast<void*>(call.staging), address(call.send), call.bytes(),
                    stream) == Result::kSuccess &&
      driver_->call(api.LaunchHostFunc, stream, &StreamNccl::run, static_cast<void*>(&call)) ==
          Result::kSuccess &&
      driver_->call(api.MemcpyHtoDAsync, address(call.recv), static_cast<const void*>(call.staging),
                    call.bytes(), stream) == Result::kSuccess;
  return done ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t StreamNccl::all_reduce(int rank, const void* send, void* recv, std::size_t count,
                                    ncclDataType_t type, device::Stream s) {
  Comm& comm = *comms_[static_cast<std::size_t>(rank)];
  const int number = comm.issued++;
  {
    const std::lock_guard lock(mutex_);
    if (failing_.count({rank, number}) != 0) {
      changed_.notify_all();
      return ncclRemoteError;
    }
  }
  EXPECT_LT(number, kCallsPerRank);
  Call& call = comm.calls[static_cast<std::size_t>(number)];
  call = {this,   &comm,
          send,   recv,
          count,  type,
          s,      static_cast<unsigned char*>(comm.pinned) + kMaxBytes * static_cast<std::size_t>(number),
          number, 0};
  EXPECT_LE(call.bytes(), kMaxBytes);
  if (comm.delay == 0) return enqueue(call);
  ++comm.pending;
  comm.helpers.emplace_back([this, &call, &comm, delay = comm.delay.load()] {
    std::this_thread::sleep_for(std::chrono::microseconds(delay));
    EXPECT_EQ(enqueue(call), ncclSuccess);
    --comm.pending;
  });
  return ncclInProgress;
}

ncclResult_t StreamNccl::async_error(int rank) {
  return comms_[static_cast<std::size_t>(rank)]->pending == 0 ? ncclSuccess : ncclInProgress;
}

// ---- the C face

namespace {

struct CommView {
  StreamNccl* nccl;
  int rank;
};

CommView* view(ncclComm_t comm) {
  return reinterpret_cast<CommView*>(comm);
}

ncclResult_t version(int* v) {
  *v = 22809;
  return ncclSuccess;
}
ncclResult_t comm_count(const ncclComm_t comm, int* n) {
  *n = view(comm)->nccl->ranks();
  return ncclSuccess;
}
ncclResult_t user_rank(const ncclComm_t comm, int* rank) {
  *rank = view(comm)->rank;
  return ncclSuccess;
}
ncclResult_t comm_async_error(ncclComm_t comm, ncclResult_t* state) {
  *state = view(comm)->nccl->async_error(view(comm)->rank);
  return ncclSuccess;
}
ncclResult_t all_reduce_c(const void* send, void* recv, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                          ncclComm_t comm, cudaStream_t stream) {
  return view(comm)->nccl->all_reduce(view(comm)->rank, send, recv, count, type, stream);
}

constexpr NcclTable kTable = {version,      comm_count, user_rank, comm_async_error,
                              all_reduce_c, nullptr,    nullptr};

const NcclTable* table_of(ncclComm_t comm) {
  return comm != nullptr ? &kTable : nullptr;
}
void enter() {
  ++nccl_depth;
}
void leave() {
  --nccl_depth;
}

}  // namespace

const ShimServices& StreamNccl::services() {
  static constexpr ShimServices kServices = {kCoreAbi, sizeof(ShimServices), table_of, enter, leave};
  return kServices;
}

}  // namespace stepgate::test

#include "integration/examples/charlm/communicator.h"

#include <exception>
#include <stdexcept>
#include <string>

namespace stepgate::charlm {
namespace {

[[noreturn]] void fail(ncclResult_t result, const char* what, ncclComm_t comm) {
  std::string text = std::string(what) + ": " + ncclGetErrorString(result);
  const char* detail = ncclGetLastError(comm);
  if (detail != nullptr && *detail != '\0') text += std::string(": ") + detail;
  throw std::runtime_error(text);
}

}  // namespace

Communicator::Communicator(const ncclUniqueId& id, unsigned rank, unsigned world, cudaStream_t stream)
    : stream_(stream) {
  const ncclResult_t result = ncclCommInitRank(&comm_, static_cast<int>(world), id, static_cast<int>(rank));
  if (result != ncclSuccess) fail(result, "ncclCommInitRank", nullptr);
}

// A rank that leaves because of an error must not wait for the others, as destroying would.
Communicator::~Communicator() {
  if (comm_ == nullptr) return;
  if (broken_ || std::uncaught_exceptions() > 0) {
    ncclCommAbort(comm_);
  } else {
    ncclCommDestroy(comm_);
  }
}

void Communicator::abort() {
  if (comm_ != nullptr) ncclCommAbort(comm_);
  comm_ = nullptr;
}

void Communicator::check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  broken_ = true;
  fail(result, what, comm_);
}

void Communicator::group_start() {
  check(ncclGroupStart(), "ncclGroupStart");
}

void Communicator::group_end() {
  check(ncclGroupEnd(), "ncclGroupEnd");
}

void Communicator::all_reduce(void* data, std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
  check(ncclAllReduce(data, data, count, type, op, comm_, stream_), "ncclAllReduce");
}

void Communicator::reduce_scatter(const void* send, void* receive, std::size_t receive_count,
                                  ncclDataType_t type, ncclRedOp_t op) {
  check(ncclReduceScatter(send, receive, receive_count, type, op, comm_, stream_), "ncclReduceScatter");
}

void Communicator::all_gather(const void* send, void* receive, std::size_t send_count, ncclDataType_t type) {
  check(ncclAllGather(send, receive, send_count, type, comm_, stream_), "ncclAllGather");
}

ncclUniqueId new_unique_id() {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) fail(result, "ncclGetUniqueId", nullptr);
  return id;
}

}  // namespace stepgate::charlm

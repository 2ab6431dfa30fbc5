#include "collectives/hostnccl/status.h"

#include <cstring>
#include <string>

namespace stepgate::hostnccl {
namespace {

const char* meaning(sgt_status status) {
  switch (status) {
    case SGT_INVALID: return "the transport refused an argument";
    case SGT_TIMEOUT: return "deadline reached (STEPGATE_HOSTNCCL_TIMEOUT)";
    case SGT_PEER_DEAD: return "a peer is gone";
    case SGT_ABORTED: return "aborted";
    case SGT_SYSTEM: return "a system call or UCX failed";
    case SGT_FORKED: return "a forked child cannot use its parent's communicators";
    case SGT_VERSION: return "another UCX version lives in this process";
    default: return "unexpected answer of the transport";
  }
}

ncclResult_t code_of(sgt_status status, bool aborted_here) {
  switch (status) {
    case SGT_OK: return ncclSuccess;
    case SGT_IN_PROGRESS: return ncclInProgress;
    case SGT_INVALID: return ncclInvalidArgument;
    case SGT_TIMEOUT:
    case SGT_PEER_DEAD: return ncclRemoteError;
    // As NCCL's own waits do when they see their abort flag.
    case SGT_ABORTED: return aborted_here ? ncclInternalError : ncclRemoteError;
    case SGT_SYSTEM:
    case SGT_VERSION: return ncclSystemError;
    case SGT_FORKED: return ncclInvalidUsage;
  }
  return ncclInternalError;
}

std::string sentence(sgt_status status, const sgt_error& error, bool aborted_here) {
  std::string text = meaning(status);
  if (status == SGT_ABORTED) text += aborted_here ? " by this rank" : " by another rank";
  if (error.culprit >= 0) text += ": rank " + std::to_string(error.culprit);
  const std::size_t length = strnlen(error.message, sizeof error.message);
  if (length != 0) text += " (" + std::string(error.message, length) + ")";
  return text;
}

}  // namespace

Outcome translate_status(sgt_status status, const sgt_error& error, bool aborted_here) {
  if (status == SGT_OK) return success();
  if (status == SGT_IN_PROGRESS) return {ncclInProgress, {}};
  return {code_of(status, aborted_here), sentence(status, error, aborted_here)};
}

}  // namespace stepgate::hostnccl

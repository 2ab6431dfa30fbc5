// The transport's statuses and sentences as NCCL's codes and ours.
//
// Pure functions: any thread, no order, no lock.
#pragma once

#include "collectives/hostnccl/outcome.h"
#include "collectives/ucx/transport.h"

namespace stepgate::hostnccl {

// `aborted_here`: this rank asked for it.
Outcome translate_status(sgt_status status, const sgt_error& error, bool aborted_here);

inline sgt_error no_error() {
  sgt_error error;
  error.status = SGT_OK;
  error.culprit = -1;
  error.message[0] = '\0';
  return error;
}

}  // namespace stepgate::hostnccl

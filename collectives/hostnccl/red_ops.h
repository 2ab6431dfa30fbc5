// The operators that ncclRedOpCreatePreMulSum makes: a sum of what each rank has multiplied by its own
// scalar.
//
//   ops.create(number, {table->scale, pointer, {}}, ncclFloat16);
//   Outcome o = ops.resolve(&request);   // request.op was the number; it is ncclSum afterwards
//
// Threads: any; one short lock. Ownership: an immediate scalar is copied here and into each request, so that
// the operator may be destroyed right after a call that uses it, as in NCCL. A scalar that lies on a device
// stays the caller's and is read when the collective runs.
#pragma once

#include <map>
#include <mutex>

#include "collectives/hostnccl/outcome.h"
#include "collectives/hostnccl/request.h"

namespace stepgate::hostnccl {

class RedOps {
 public:
  void create(int number, const PreMul& premul, int type);
  // ncclInvalidArgument where this communicator has no such operator.
  Outcome destroy(int number);
  // Leaves NCCL's own operators alone. ncclInvalidArgument for an unknown one, and for another type than the
  // operator was made for.
  Outcome resolve(Request* request) const;

 private:
  struct Made {
    PreMul premul;
    int type;
  };
  mutable std::mutex mutex_;
  std::map<int, Made> made_;  // guarded by mutex_
};

}  // namespace stepgate::hostnccl

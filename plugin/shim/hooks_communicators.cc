// Hooks: communicators and groups. ABI adapters only.
#include "plugin/shim/comm_name.h"
#include "plugin/shim/forward.h"

#define STEPGATE_HOOK extern "C" __attribute__((visibility("default")))

using namespace stepgate;
using namespace stepgate::shim;

namespace {

// Calls under the guard.
template <class F, class... Args>
ncclResult_t guarded(F* call, Args... args) {
  const InsideNccl guard;
  return call(args...);
}

}  // namespace

// A creation. source: which NCCL copy is meant; where: the new communicator lands there; called: its name.
#define STEPGATE_CREATION(name, source, where, called, parameters, ...)                   \
  STEPGATE_HOOK ncclResult_t nccl##name parameters {                                      \
    const NcclCopy* copy = source;                                                        \
    if (copy == nullptr || copy->functions.name == nullptr) return missing("nccl" #name); \
    const bool nested = inside_nccl();                                                    \
    const ncclResult_t result = guarded(copy->functions.name, __VA_ARGS__);               \
    if (!nested) comm_created(where, copy, result, called);                               \
    return result;                                                                        \
  }

STEPGATE_CREATION(CommInitRank, resolve_copy(__builtin_return_address(0)), comm, nullptr,
                  (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank), comm, nranks, commId, rank)
STEPGATE_CREATION(CommInitRankConfig, resolve_copy(__builtin_return_address(0)), comm, name_in(config),
                  (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config), comm,
                  nranks, commId, rank, config)
STEPGATE_CREATION(CommInitRankScalable, resolve_copy(__builtin_return_address(0)), newcomm, name_in(config),
                  (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                   ncclConfig_t* config),
                  newcomm, nranks, myrank, nId, commIds, config)
STEPGATE_CREATION(CommSplit, copy_for(comm, __builtin_return_address(0)), newcomm,
                  name_of_child(comm, config),
                  (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config), comm,
                  color, key, newcomm, config)
STEPGATE_CREATION(CommShrink, copy_for(comm, __builtin_return_address(0)), newcomm,
                  name_of_child(comm, config),
                  (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
                   ncclConfig_t* config, int shrinkFlags),
                  comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags)

STEPGATE_HOOK ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  const NcclCopy* copy = resolve_copy(__builtin_return_address(0));
  if (copy == nullptr || copy->functions.CommInitAll == nullptr) return missing("ncclCommInitAll");
  const bool nested = inside_nccl();
  const ncclResult_t result = guarded(copy->functions.CommInitAll, comm, ndev, devlist);
  for (int i = 0; !nested && i < ndev; ++i) {
    comm_created(comm + i, copy, result, nullptr, devlist != nullptr ? devlist[i] : i);
  }
  return result;
}

// An end: what the plugin knows of the pointer goes first, for NCCL hands it out again.
#define STEPGATE_END(name)                                                                \
  STEPGATE_HOOK ncclResult_t nccl##name(ncclComm_t comm) {                                \
    const NcclCopy* copy = copy_for(comm, __builtin_return_address(0));                   \
    if (copy == nullptr || copy->functions.name == nullptr) return missing("nccl" #name); \
    if (!inside_nccl()) comm_retiring(comm);                                              \
    return guarded(copy->functions.name, comm);                                           \
  }

STEPGATE_END(CommDestroy)
STEPGATE_END(CommAbort)

// Calls that only pass: hooked so that NCCL's own re-entry is told from the job's calls.
#define STEPGATE_PASS(name, comm, parameters, ...)                                        \
  STEPGATE_HOOK ncclResult_t nccl##name parameters {                                      \
    const NcclCopy* copy = copy_for(comm, __builtin_return_address(0));                   \
    if (copy == nullptr || copy->functions.name == nullptr) return missing("nccl" #name); \
    return guarded(copy->functions.name, __VA_ARGS__);                                    \
  }

STEPGATE_PASS(CommFinalize, comm, (ncclComm_t comm), comm)
STEPGATE_PASS(CommRevoke, comm, (ncclComm_t comm, int revokeFlags), comm, revokeFlags)
STEPGATE_PASS(RedOpCreatePreMulSum, comm,
              (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
               ncclComm_t comm),
              op, scalar, datatype, residence, comm)
STEPGATE_PASS(RedOpDestroy, comm, (ncclRedOp_t op, ncclComm_t comm), op, comm)

// The only word on when a non-blocking communicator's calls have been launched.
STEPGATE_HOOK ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  const void* const caller = __builtin_return_address(0);
  const CommEntry entry = find_comm(comm);
  const NcclCopy* copy = entry.copy != nullptr ? entry.copy : resolve_copy(caller);
  if (copy == nullptr || copy->functions.CommGetAsyncError == nullptr)
    return missing("ncclCommGetAsyncError");
  const bool nested = inside_nccl();
  if (!nested) comm_asked(comm, entry, *copy, caller);
  const ncclResult_t result = guarded(copy->functions.CommGetAsyncError, comm, asyncError);
  if (!nested && result == ncclSuccess && asyncError != nullptr && *asyncError == ncclSuccess) {
    comm_settled(comm);
  }
  return result;
}

STEPGATE_HOOK ncclResult_t ncclGroupStart() {
  const NcclCopy* copy = resolve_copy(__builtin_return_address(0));
  if (copy == nullptr || copy->functions.GroupStart == nullptr) return missing("ncclGroupStart");
  const bool nested = inside_nccl();
  const ncclResult_t result = guarded(copy->functions.GroupStart);
  if (!nested) group_started(result);
  return result;
}

STEPGATE_HOOK ncclResult_t ncclGroupEnd() {
  const NcclCopy* copy = resolve_copy(__builtin_return_address(0));
  if (copy == nullptr || copy->functions.GroupEnd == nullptr) return missing("ncclGroupEnd");
  const bool nested = inside_nccl();
  if (!nested) group_ending();
  const ncclResult_t result = guarded(copy->functions.GroupEnd);
  if (!nested) group_ended(result);
  return result;
}

STEPGATE_HOOK ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo) {
  const NcclCopy* copy = resolve_copy(__builtin_return_address(0));
  if (copy == nullptr || copy->functions.GroupSimulateEnd == nullptr) return missing("ncclGroupSimulateEnd");
  const bool nested = inside_nccl();
  // Without a place for the estimate it is a plain end; on communicators that do not block NCCL launches too,
  // which shows only afterwards: what such a call has reduced in place is then taken for what this rank sent.
  if (!nested && simInfo == nullptr) group_ending();
  const ncclResult_t result = guarded(copy->functions.GroupSimulateEnd, simInfo);
  const bool launches = simInfo == nullptr || result == ncclInProgress;
  if (!nested && launches && simInfo != nullptr) group_ending();
  if (!nested && launches) group_ended(result);
  if (!nested && !launches) group_simulated();
  return result;
}

// NCCL's C ABI: adapters only, how communicators come about and end.
//
// Threads: as NCCL's; see creation.h, children.h and communicator.h for what stands behind each call. As in
// NCCL, NULL is a communicator that has ended already.
#include <atomic>

#include "collectives/hostnccl/children.h"
#include "collectives/hostnccl/comm_config.h"
#include "collectives/hostnccl/creation.h"
#include "collectives/hostnccl/managed.h"

namespace stepgate::hostnccl {
namespace {

Library& library() {
  return Library::of_this_process();
}

Outcome close(const std::shared_ptr<Communicator>& comm) {
  Outcome outcome = comm->destroy();
  library().bury(comm->take_staging());
  return outcome;
}

// Of one that is broken the peers have heard why, or will.
void give_up(const std::shared_ptr<Communicator>& comm) {
  if (const Outcome now = comm->status(); now.ok() || now.code == ncclInProgress) comm->abort();
  (void)close(comm);
}

// In a group the handle is dead at once, and what it stood for ends with the group. An end that the group
// never comes to is made up for: NCCL loses the communicator.
Outcome end(ncclComm_t handle, bool by_abort) {
  if (handle == nullptr) return success();
  return with_comm(handle, [&](const std::shared_ptr<Communicator>& comm) {
    if (by_abort) comm->abort();
    Group& group = group_of_this_thread();
    if (!group.open()) {
      Outcome outcome = close(comm);
      library().retire(handle);
      return outcome;
    }
    Task task{comm, true, [comm] { return close(comm); }, [comm] { give_up(comm); }};
    library().retire(handle);  // nothing may throw behind it
    return group.manage(std::move(task), true);
  });
}

Outcome finalize(const std::shared_ptr<Communicator>& comm) {
  if (Outcome o = comm->answers(); !o.ok()) return o;
  if (Outcome o = comm->begin_finalize(); !o.ok()) return o;
  return group_of_this_thread().manage(
      {comm, comm->blocking(), [comm] { return comm->finalize(); }, [comm] { comm->take_back_finalize(); }});
}

Outcome revoke(const std::shared_ptr<Communicator>& comm, int flags) {
  if (flags != NCCL_REVOKE_DEFAULT) {
    return invalid_argument("revokeFlags " + std::to_string(flags) +
                            " is not allowed: NCCL_REVOKE_DEFAULT, 0");
  }
  if (Outcome o = comm->begin_revoke(); !o.ok()) return o;
  comm->wait_for_job();
  return group_of_this_thread().manage({comm, comm->blocking(), [comm] { return comm->come_to_rest(); }});
}

// *newcomm is set when the communicator is there, maybe by another thread.
Outcome start_child(const std::shared_ptr<Communicator>& parent, const ChildRequest& request,
                    ncclComm_t* newcomm) {
  const auto run = [=] {
    std::shared_ptr<Communicator> child;
    if (Outcome o = make_child(*parent, request, &child); !o.ok()) return o;
    if (child != nullptr) std::atomic_ref(*newcomm).store(library().enlist(child), std::memory_order_release);
    return success();
  };
  return group_of_this_thread().manage({parent, parent->blocking(), run});
}

Outcome config_of_child(const Communicator& parent, const ncclConfig_t* given, Config* config) {
  *config = parent.config();
  return given != nullptr ? read_comm_config(given, &config->blocking) : success();
}

Outcome split(const std::shared_ptr<Communicator>& parent, ChildRequest request, ncclComm_t* newcomm,
              const ncclConfig_t* config) {
  if (Outcome o = require(newcomm, "newcomm"); !o.ok()) return o;
  if (Outcome o = parent->revoked() ? parent->answers() : parent->ready(); !o.ok()) return o;
  *newcomm = nullptr;
  if (Outcome o = config_of_child(*parent, config, &request.config); !o.ok()) return o;
  return start_child(parent, request, newcomm);
}

Outcome check_exclusion(const Communicator& parent, const int* ranks, int count, std::vector<int>* excluded) {
  if (Outcome o = require(ranks, "excludeRanksList"); !o.ok()) return o;
  if (count < 1) {
    return invalid_argument("excludeRanksCount " + std::to_string(count) + " is not allowed: 1 or more");
  }
  excluded->assign(ranks, ranks + count);
  std::vector<int> left;
  return ranks_left(*excluded, parent.rank(), parent.size(), &left);
}

// Only for a broken or revoked parent is the flag more than a wish.
Outcome shrink(const std::shared_ptr<Communicator>& parent, ChildRequest request, const int* ranks, int count,
               ncclComm_t* newcomm, const ncclConfig_t* config, int flags) {
  if (Outcome o = require(newcomm, "newcomm"); !o.ok()) return o;
  if (Outcome o = check_exclusion(*parent, ranks, count, &request.excluded); !o.ok()) return o;
  const bool ends_operations = (flags & NCCL_SHRINK_ABORT) != 0;
  if (ends_operations) {
    parent->end_operations();
    parent->wait_for_job();
  } else if (Outcome o = parent->revoked() ? parent->answers() : parent->ready(); !o.ok()) {
    return o;
  }
  *newcomm = nullptr;
  if (Outcome o = config_of_child(*parent, config, &request.config); !o.ok()) return o;
  return start_child(parent, request, newcomm);
}

}  // namespace
}  // namespace stepgate::hostnccl

using namespace stepgate::hostnccl;  // NOLINT(google-build-using-namespace): nothing but adapters below

STEPGATE_NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId commId,
                  int rank) {
  return managed([&] { return create({"ncclCommInitRank", nranks, rank, {commId}}, nullptr, comm); });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int nranks, ncclUniqueId commId,
                  int rank, ncclConfig_t* config) {
  return managed([&] { return create({"ncclCommInitRankConfig", nranks, rank, {commId}}, config, comm); });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommInitRankScalable, ncclComm_t* newcomm, int nranks, int myrank,
                  int nId, ncclUniqueId* commIds, ncclConfig_t* config) {
  return managed([&] {
    Creation creation{"ncclCommInitRankScalable", nranks, myrank, {}, nId};
    if (Outcome o = require(commIds, "commIds"); !o.ok()) return o;
    if (nId > 0 && nId <= nranks) creation.ids.assign(commIds, commIds + nId);
    return create(creation, config, newcomm);
  });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommInitAll, ncclComm_t* comm, int ndev, const int* devlist) {
  return managed([&] { return create_all(comm, ndev, devlist); });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
  return managed([&] { return comm == nullptr ? success() : with_comm(comm, finalize); });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm) {
  return managed([&] { return end(comm, false); });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm) {
  return managed([&] { return end(comm, true); });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int revokeFlags) {
  return managed([&] {
    if (comm == nullptr) return success();
    return with_comm(comm, [&](const auto& found) { return revoke(found, revokeFlags); });
  });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                  ncclConfig_t* config) {
  return managed([&] {
    const ChildRequest request{.kind = ChildRequest::kSplit, .color = color, .key = key};
    return with_comm(comm, [&](const auto& found) { return split(found, request, newcomm, config); });
  });
}

STEPGATE_NCCL_API(ncclResult_t, ncclCommShrink, ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                  ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  return managed([&] {
    const ChildRequest request{.kind = ChildRequest::kShrink};
    return with_comm(comm, [&](const auto& found) {
      return shrink(found, request, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags);
    });
  });
}

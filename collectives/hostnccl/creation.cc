#include "collectives/hostnccl/creation.h"

#include <string>
#include <utility>

#include "collectives/hostnccl/comm_config.h"
#include "collectives/hostnccl/edge.h"
#include "collectives/hostnccl/guarded.h"

namespace stepgate::hostnccl {
namespace {

Library& library() {
  return Library::of_this_process();
}

// The program never gets, or loses, the handle.
void withdraw(ncclComm_t* comm, const std::shared_ptr<Communicator>& made) {
  library().retire(*comm);
  *comm = nullptr;
  library().bury(made->take_staging());
}

Outcome connect_now(const std::shared_ptr<Communicator>& made, const ncclUniqueId& id, ncclComm_t* comm) {
  if (Outcome o = made->connect(id); !o.ok()) {
    library().bury(made->take_staging());
    return o;
  }
  *comm = library().enlist(made);
  return success();
}

// The handle before the connection: until then a job that nobody has started keeps operations away.
Task connect_at_the_end(const std::shared_ptr<Communicator>& made, const ncclUniqueId& id, ncclComm_t* comm) {
  const auto waiting = std::make_shared<Job>();
  made->attach(waiting);
  const auto run = [=] {
    Outcome o = guarded([&] { return made->connect(id); });
    waiting->skip();
    if (!o.ok() && made->blocking()) withdraw(comm, made);
    return o;
  };
  const auto forget = [=] {
    waiting->skip();
    withdraw(comm, made);
  };
  Task task{made, made->blocking(), run, forget};
  *comm = library().enlist(made);  // nothing may throw behind it
  return task;
}

Outcome connect_later(const std::shared_ptr<Communicator>& made, const ncclUniqueId& id, ncclComm_t* comm) {
  *comm = library().enlist(made);
  Outcome o = guarded([&] { return run_now({made, false, [=] { return made->connect(id); }}); });
  if (o.code != ncclInProgress) withdraw(comm, made);
  return o;
}

Outcome check_devices(const int* devices, int size) {
  for (int i = 0; devices != nullptr && i < size; ++i) {
    if (devices[i] != 0) {
      return invalid_argument("devlist names device " + std::to_string(devices[i]) +
                              "; allowed: 0, the host's memory");
    }
    if (i > 0) return invalid_usage("devlist names device 0 twice; allowed: each once, or devlist NULL");
  }
  return success();
}

Outcome create_one_of_all(Group& group, int size, int rank, const ncclUniqueId& id, ncclComm_t* comm) {
  std::shared_ptr<Communicator> made;
  if (Outcome o = library().prepare(size, rank, true, false, &made); !o.ok()) return o;
  return group.manage(connect_at_the_end(made, id, comm));
}

}  // namespace

Outcome create(const Creation& creation, const ncclConfig_t* config, ncclComm_t* comm) {
  const int count = creation.id_count;
  if (Outcome o = require(comm, "comm"); !o.ok()) return o;
  *comm = nullptr;
  if (count < 1 || count > creation.size) {
    return invalid_argument(std::string(creation.function) + ": nId " + std::to_string(count) +
                            " is not allowed: 1 to nranks, " + std::to_string(creation.size));
  }
  bool blocking = true;
  if (Outcome o = read_comm_config(config, &blocking); !o.ok()) return o;
  std::shared_ptr<Communicator> made;
  const ncclUniqueId& id = creation.ids.front();
  if (Outcome o = library().prepare(creation.size, creation.rank, blocking, true, &made); !o.ok()) return o;
  if (Outcome o = library().spend(id, creation.rank); !o.ok()) {
    library().bury(made->take_staging());
    return o;
  }
  for (int i = 1; i < count; ++i) library().close_id(creation.ids[static_cast<std::size_t>(i)]);
  Group& group = group_of_this_thread();
  if (group.open()) return group.manage(connect_at_the_end(made, id, comm));
  return blocking ? connect_now(made, id, comm) : connect_later(made, id, comm);
}

Outcome create_all(ncclComm_t* comms, int size, const int* devices) {
  if (Outcome o = require(comms, "comms"); !o.ok()) return o;
  if (size < 0) return invalid_argument("ndev " + std::to_string(size) + " is not allowed: 0 or more");
  if (Outcome o = check_devices(devices, size); !o.ok()) return o;
  for (int i = 0; i < size; ++i) comms[i] = nullptr;
  ncclUniqueId id = {};
  if (size > 1) {
    if (Outcome o = library().unique_id(&id); !o.ok()) return o;
  }
  Group& group = group_of_this_thread();
  group.begin();
  for (int i = 0; i < size; ++i) {
    group.poison(guarded([&] { return create_one_of_all(group, size, i, id, comms + i); }));
  }
  return group.end();
}

}  // namespace stepgate::hostnccl

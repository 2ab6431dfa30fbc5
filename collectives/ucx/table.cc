// The C edge: every function of transport.h, and nothing else. It refuses forked children, checks
// arguments, catches every exception, and translates. Thread: as transport.h says.
#include "collectives/ucx/table.h"

#include <limits>
#include <new>

#include "collectives/ucx/host_identity.h"
#include "collectives/ucx/listeners.h"
#include "collectives/ucx/process_guard.h"
#include "collectives/ucx/subset.h"
#include "collectives/ucx/world.h"

using stepgate::transport::Error;
using stepgate::transport::Failure;
using stepgate::transport::IdLayout;
using stepgate::transport::Listeners;
using stepgate::transport::Operation;
using stepgate::transport::Options;
using stepgate::transport::World;

struct sgt_world {
  std::unique_ptr<World> world;
  stepgate::transport::Key key;  // of the id that it came about over
  uint64_t number;               // of the meeting at this rank's door, or 0
};

namespace {

// See listeners.h. Leaked on purpose: its threads may outlive static destruction.
Listeners& listeners() {
  static Listeners* const table = new Listeners;
  return *table;
}

const Failure& forked_failure() {
  static const Failure* const failure =
      new Failure{SGT_FORKED, -1, "the transport belongs to the process that forked this one"};
  return *failure;
}

Operation* inside(sgt_op* op) {
  return reinterpret_cast<Operation*>(op);
}
sgt_op* outside(Operation* operation) {
  return reinterpret_cast<sgt_op*>(operation);
}

sgt_status answer(sgt_error* error, const Failure& failure) {
  stepgate::transport::fill(error, failure);
  return failure.status;
}

// Runs `body` behind the firewall.
template <typename Body>
sgt_status guarded(sgt_error* error, Body body) noexcept {
  try {
    if (stepgate::transport::forked()) return answer(error, forked_failure());
    return body();
  } catch (const Error& e) {
    return answer(error, e.failure());
  } catch (const std::bad_alloc&) {
    return answer(error, {SGT_SYSTEM, -1, "out of memory"});
  } catch (const std::exception& e) {
    return answer(error, {SGT_SYSTEM, -1, e.what()});
  } catch (...) {
    return answer(error, {SGT_SYSTEM, -1, "an unknown exception"});
  }
}

void require(bool condition, const std::string& message) {
  if (!condition) throw Error(SGT_INVALID, message);
}

std::string number(long long value) {
  return std::to_string(value);
}

IdLayout parse_id(const sgt_unique_id* id) {
  require(id != nullptr, "the unique id is NULL");
  IdLayout layout;
  std::memcpy(&layout, id->bytes, sizeof layout);
  require(std::memcmp(layout.magic, stepgate::transport::kMagic, sizeof layout.magic) == 0,
          "the unique id is not one of this transport's");
  require(layout.version == stepgate::transport::kProtocolVersion,
          "the unique id has version " + number(layout.version) + "; this library speaks " +
              number(stepgate::transport::kProtocolVersion));
  layout.host[sizeof layout.host - 1] = '\0';
  return layout;
}

Options parse_options(const sgt_options* given) {
  Options options;
  if (given == nullptr) return options;
  require(given->size >= sizeof(sgt_options), "sgt_options.size is " +
                                                  number(static_cast<long long>(given->size)) +
                                                  ", at least " + number(sizeof(sgt_options)) + " is needed");
  require(given->timeout_seconds == given->timeout_seconds, "timeout_seconds is not a number");
  if (given->timeout_seconds > 0) options.timeout_seconds = given->timeout_seconds;
  if (given->transports != nullptr) options.transports = given->transports;
  if (given->interface != nullptr) options.interface = given->interface;
  if (given->cancelled != nullptr)
    options.cancelled = [ask = given->cancelled, context = given->context] { return ask(context) != 0; };
  require(options.transports == "auto" || options.transports == "tcp" || options.transports == "shm",
          "transports is '" + options.transports + "'; allowed: auto, tcp, shm");
  return options;
}

void check_size(int rank, int size) {
  require(size >= 1 && size <= stepgate::transport::kLargestWorld,
          "the size is " + number(size) + "; allowed: 1.." + number(stepgate::transport::kLargestWorld));
  require(rank >= 0 && rank < size, "the rank is " + number(rank) + "; allowed: 0.." + number(size - 1));
}

// `times`: how many counts the larger buffer holds.
void check_buffers(const void* send, const void* recv, size_t count, sgt_type type, int times) {
  const size_t width = stepgate::transport::width_of(type);
  require(width != 0, "the type is " + number(type) + "; allowed: 0..9");
  require(count <= std::numeric_limits<ptrdiff_t>::max() / width / static_cast<size_t>(times),
          "the count does not fit into memory");
  require(count == 0 || (send != nullptr && recv != nullptr), "a buffer is NULL and the count is not 0");
}

void check_reduction(sgt_reduction reduction) {
  require(reduction >= SGT_SUM && reduction <= SGT_AVG,
          "the reduction is " + number(reduction) + "; allowed: 0..4");
}

template <typename Begin>
sgt_status start(sgt_world* world, sgt_op** op, sgt_error* error, Begin begin) noexcept {
  return guarded(error, [&] {
    require(world != nullptr && op != nullptr, "world or op is NULL");
    *op = outside(begin(*world->world));
    return SGT_OK;
  });
}

extern "C" {

sgt_status listen_at(const char* interface, sgt_unique_id* id, sgt_error* error) {
  return guarded(error, [&] {
    require(id != nullptr, "the unique id is NULL");
    const IdLayout layout = listeners().open(interface != nullptr ? interface : "127.0.0.1");
    std::memcpy(id->bytes, &layout, sizeof layout);
    return SGT_OK;
  });
}

sgt_status unique_id(sgt_unique_id* id, sgt_error* error) {
  return listen_at(nullptr, id, error);
}

sgt_status world_create(const sgt_unique_id* id, int rank, int size, const sgt_options* options,
                        sgt_world** world, sgt_error* error) {
  return guarded(error, [&] {
    require(world != nullptr, "world is NULL");
    check_size(rank, size);
    const IdLayout layout = parse_id(id);
    stepgate::transport::Fabric::check_version();
    stepgate::transport::arm_process_guard();
    const Options chosen = parse_options(options);
    *world = new sgt_world{std::make_unique<World>(layout, rank, size, chosen), layout.key, 0};
    listeners().retain(layout.key);
    return SGT_OK;
  });
}

sgt_status world_subset(const sgt_world* parent, const int* ranks, int count, const sgt_options* options,
                        sgt_world** child, sgt_error* error) {
  return guarded(error, [&] {
    require(parent != nullptr && ranks != nullptr && child != nullptr, "parent, ranks or child is NULL");
    require(count >= 1 && count <= parent->world->size(),
            "the count is " + number(count) + "; allowed: 1.." + number(parent->world->size()));
    auto made = std::make_unique<sgt_world>();
    made->world = stepgate::transport::create_subset(*parent->world, {ranks, ranks + count},
                                                     parse_options(options), &listeners(), &made->number);
    listeners().retain(made->number);
    *child = made.release();
    return SGT_OK;
  });
}

void unique_id_close(const sgt_unique_id* id) {
  guarded(nullptr, [&] {
    listeners().close(parse_id(id).key);
    return SGT_OK;
  });
}

int world_rank(const sgt_world* world) {
  return world->world->rank();
}
int world_size(const sgt_world* world) {
  return world->world->size();
}

sgt_status world_status(const sgt_world* world, sgt_error* error) {
  return guarded(error, [&] {
    Failure failure;
    world->world->status(&failure);
    return failure.status == SGT_OK ? SGT_OK : answer(error, failure);
  });
}

void world_abort(sgt_world* world) {
  guarded(nullptr, [&] {
    if (world != nullptr) world->world->abort();
    return SGT_OK;
  });
}

void world_destroy(sgt_world* world) {
  guarded(nullptr, [&] {
    if (world == nullptr) return SGT_OK;
    const auto key = world->key;
    const uint64_t number = world->number;
    delete world;
    if (number != 0)
      listeners().release(number);
    else
      listeners().release(key);
    return SGT_OK;
  });
}

sgt_status allreduce(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type,
                     sgt_reduction reduction, sgt_op** op, sgt_error* error) {
  return start(world, op, error, [&](World& w) {
    check_buffers(send, recv, count, type, 1);
    check_reduction(reduction);
    return w.allreduce(send, recv, count, type, reduction);
  });
}

sgt_status reduce_scatter(sgt_world* world, const void* send, void* recv, size_t recv_count, sgt_type type,
                          sgt_reduction reduction, sgt_op** op, sgt_error* error) {
  return start(world, op, error, [&](World& w) {
    check_buffers(send, recv, recv_count, type, w.size());
    check_reduction(reduction);
    return w.reduce_scatter(send, recv, recv_count, type, reduction);
  });
}

sgt_status allgather(sgt_world* world, const void* send, void* recv, size_t send_count, sgt_type type,
                     sgt_op** op, sgt_error* error) {
  return start(world, op, error, [&](World& w) {
    check_buffers(send, recv, send_count, type, w.size());
    return w.allgather(send, recv, send_count, type);
  });
}

sgt_status broadcast(sgt_world* world, const void* send, void* recv, size_t count, sgt_type type, int root,
                     sgt_op** op, sgt_error* error) {
  return start(world, op, error, [&](World& w) {
    require(root >= 0 && root < w.size(),
            "the root is " + number(root) + "; allowed: 0.." + number(w.size() - 1));
    check_buffers(w.rank() == root ? send : recv, recv, count, type, 1);  // send counts on the root only
    return w.broadcast(send, recv, count, type, root);
  });
}

sgt_status barrier(sgt_world* world, sgt_op** op, sgt_error* error) {
  return start(world, op, error, [](World& w) { return w.barrier(); });
}

sgt_status op_progress(sgt_op* op, sgt_error* error) {
  return guarded(error, [&] {
    Failure failure;
    const sgt_status status = inside(op)->world().progress(*inside(op), &failure);
    return status <= SGT_IN_PROGRESS ? status : answer(error, failure);
  });
}

sgt_status op_wait(sgt_op* op, sgt_error* error) {
  return guarded(error, [&] {
    Failure failure;
    const sgt_status status = inside(op)->world().wait(*inside(op), &failure);
    return status <= SGT_IN_PROGRESS ? status : answer(error, failure);
  });
}

void op_release(sgt_op* op) {
  guarded(nullptr, [&] {
    if (op != nullptr) inside(op)->world().release(inside(op));
    return SGT_OK;
  });
}

const char* version() {
  return ucp_get_version_string();
}

}  // extern "C"

constexpr sgt_table kTable = {
    SGT_ABI_VERSION, sizeof(sgt_table), unique_id,  world_create,   world_rank, world_size,   world_status,
    world_abort,     world_destroy,     allreduce,  reduce_scatter, allgather,  broadcast,    barrier,
    op_progress,     op_wait,           op_release, version,        listen_at,  world_subset, unique_id_close,
};

}  // namespace

namespace stepgate::transport {

const sgt_table* table(uint32_t abi_version) noexcept {
  return abi_version == SGT_ABI_VERSION ? &kTable : nullptr;
}

}  // namespace stepgate::transport

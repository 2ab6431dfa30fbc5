// The C edge: the functions of transport.h that are about worlds and operations, and the table of all. The
// collectives stand in table_collectives.cc. Thread: as transport.h says.
#include "collectives/ucx/table.h"

#include "collectives/ucx/edge.h"
#include "collectives/ucx/host_identity.h"
#include "collectives/ucx/listeners.h"
#include "collectives/ucx/subset.h"
#include "collectives/ucx/table_collectives.h"

using stepgate::transport::answer;
using stepgate::transport::Failure;
using stepgate::transport::guarded;
using stepgate::transport::IdLayout;
using stepgate::transport::inside;
using stepgate::transport::Listeners;
using stepgate::transport::number;
using stepgate::transport::Options;
using stepgate::transport::require;
using stepgate::transport::World;

namespace {

// See listeners.h. Leaked on purpose: its threads may outlive static destruction.
Listeners& listeners() {
  static Listeners* const table = new Listeners;
  return *table;
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

namespace ours = stepgate::transport;
constexpr sgt_table kTable = {
    .abi_version = SGT_ABI_VERSION,
    .size = sizeof(sgt_table),
    .unique_id = unique_id,
    .world_create = world_create,
    .world_rank = world_rank,
    .world_size = world_size,
    .world_status = world_status,
    .world_abort = world_abort,
    .world_destroy = world_destroy,
    .allreduce = ours::allreduce,
    .reduce_scatter = ours::reduce_scatter,
    .allgather = ours::allgather,
    .broadcast = ours::broadcast,
    .barrier = ours::barrier,
    .op_progress = op_progress,
    .op_wait = op_wait,
    .op_release = op_release,
    .version = version,
    .unique_id_at = listen_at,
    .world_subset = world_subset,
    .unique_id_close = unique_id_close,
    .reduce = ours::reduce,
    .gather = ours::gather,
    .scatter = ours::scatter,
    .alltoall = ours::alltoall,
    .send = ours::send,
    .recv = ours::recv,
    .scale = ours::scale,
    .allreduce_wait = ours::allreduce_wait,
};

}  // namespace

namespace stepgate::transport {

const sgt_table* table(uint32_t abi_version) noexcept {
  return abi_version == SGT_ABI_VERSION ? &kTable : nullptr;
}

}  // namespace stepgate::transport

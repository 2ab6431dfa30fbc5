// stepgate_core_entry: builds the process's core once and hands the shim its table.
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include "plugin/core/api.h"
#include "plugin/core/last_error.h"
#include "plugin/core/process.h"

namespace stepgate::gate {
namespace {

// Never destroyed: job threads may still be in a hook while static destructors run. AtExit below ends
// what must end.
Process* process = nullptr;

struct AtExit {
  ~AtExit() {
    if (process != nullptr) process->shut_down();
  }
};

bool active() noexcept {
  return process->active();
}

void comm_created(ncclComm_t, int device) noexcept {
  if (process->active()) process->comm_created(device);
}

void comm_retired(ncclComm_t comm) noexcept {
  if (process->active()) process->comm_retired(comm);
}

void before(const Reduction* op) noexcept {
  if (process->active()) process->before(*op);
}

void after(const Reduction* op, Outcome outcome) noexcept {
  if (process->active()) process->after(*op, outcome);
}

void settled(ncclComm_t comm) noexcept {
  if (process->active()) process->settled(comm);
}

void warn(const char* text) noexcept {
  if (process->active()) process->warn(text);
}

CoreTable make_table() {
  CoreTable t{};
  t.abi = kCoreAbi;
  t.size = sizeof t;
  t.active = active;
  t.comm_created = comm_created;
  t.comm_retired = comm_retired;
  t.before = before;
  t.after = after;
  t.settled = settled;
  t.last_error = last_error;
  t.warn = warn;
  fill_api(&t);
  return t;
}

const CoreTable* start(const ShimServices& services) {
  static const CoreTable table = make_table();
  static std::once_flag once;
  std::call_once(once, [&] {
    std::vector<std::string_view> variables;
    for (char** v = environ; v != nullptr && *v != nullptr; ++v) variables.emplace_back(*v);
    process = new Process([](const char* name) { return std::getenv(name); }, variables, services);
    set_api_process(process);
    static const AtExit at_exit;
  });
  return &table;
}

}  // namespace
}  // namespace stepgate::gate

extern "C" __attribute__((visibility("default"))) const stepgate::CoreTable* stepgate_core_entry(
    std::uint32_t abi, const stepgate::ShimServices* services) {
  using namespace stepgate;
  if (abi != kCoreAbi || services == nullptr || services->size != sizeof(ShimServices)) return nullptr;
  try {
    return gate::start(*services);
  } catch (...) {
    return nullptr;  // the shim says so and the job goes on without
  }
}

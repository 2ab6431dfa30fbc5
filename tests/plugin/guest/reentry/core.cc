// A core that says what the shim tells it. It stands beside a copy of the shim under the core's name.
#include <cstdio>

#include "plugin/core/core_entry.h"

namespace {

using namespace stepgate;

bool active() {
  return true;
}
void comm_created(ncclComm_t, int device) {
  device < 0 ? std::printf("created\n") : std::printf("created on %d\n", device);
}
void comm_retired(ncclComm_t) {}
void before(const Reduction* op) {
  std::printf("before %u\n", static_cast<unsigned>(op->kind));
}
void after(const Reduction* op, Outcome outcome) {
  std::printf("after %u outcome %u\n", static_cast<unsigned>(op->kind), static_cast<unsigned>(outcome));
}
void settled(ncclComm_t) {}
const char* last_error() {
  return "";
}
void warn(const char* text) {
  std::printf("warn %.24s\n", text);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const CoreTable* stepgate_core_entry(std::uint32_t abi,
                                                                                       const ShimServices*) {
  static CoreTable table{};
  table.abi = abi;
  table.size = sizeof table;
  table.active = active;
  table.comm_created = comm_created;
  table.comm_retired = comm_retired;
  table.before = before;
  table.after = after;
  table.settled = settled;
  table.last_error = last_error;
  table.warn = warn;
  return &table;
}

// What the library offers beside the functions of api.h: the look-up of those, and the tests' control table.
#include <cstring>

#include "tests/standin_cuda/driver/api.h"
#include "tests/standin_cuda/driver/environment.h"
#include "tests/standin_cuda/driver/world.h"
#include "tests/standin_cuda/grid.h"

namespace stepgate::standin {
namespace {

using device::cuda::SymbolStatus;

struct Symbol {
  const char* name;
  void* address;
};

constexpr int kOldestVersion = 2000;

void* symbol_of(const char* name) {
#define STEPGATE_STANDIN_SYMBOL(NAME, SUFFIX, PARAMETERS) {"cu" #NAME, reinterpret_cast<void*>(&api::NAME)},
  static const Symbol symbols[] = {STEPGATE_CUDA_REQUIRED(STEPGATE_STANDIN_SYMBOL)
                                       STEPGATE_CUDA_OPTIONAL(STEPGATE_STANDIN_SYMBOL)};
#undef STEPGATE_STANDIN_SYMBOL
  for (const Symbol& s : symbols) {
    if (std::strcmp(s.name, name) == 0) return s.address;
  }
  return nullptr;
}

void configure(const Options& options) {
  world().configure(options);
  calls().heal();
  calls().forget();
}

void fail(const char* name, std::uint64_t index, int result, std::uint64_t count) {
  calls().fail(name, index, static_cast<Result>(result), count);
}

constexpr Control kControl = {
    configure,
    fail,
    [] { calls().heal(); },
    [] { return calls().faults_hit(); },
    [](CallRecord* out, std::size_t capacity) { return calls().read(out, capacity); },
    [] { calls().forget(); },
    [] { return world().account(); },
    [] { return world().kernels_run.load(); },
};

// Before main or at dlopen: a fault from the environment counts calls from the first one on. What grids
// share is made here, before there is a second thread: ThreadSanitizer does not see their code.
__attribute__((constructor)) void start() {
  run_grid(1, kLanes, [] {});
  fail_from_environment();
}

}  // namespace

STEPGATE_STANDIN_EXPORT Result get_proc_address(const char* symbol, void** found, int version, std::uint64_t,
                                                SymbolStatus* status) __asm__("cuGetProcAddress_v2");
Result get_proc_address(const char* symbol, void** found, int version, std::uint64_t, SymbolStatus* status) {
  if (symbol == nullptr || found == nullptr || version < kOldestVersion) return Result::kInvalidValue;
  *found = symbol_of(symbol);
  if (status != nullptr) *status = *found != nullptr ? SymbolStatus::kFound : SymbolStatus::kNotFound;
  return *found != nullptr ? Result::kSuccess : Result::kNotFound;
}

STEPGATE_STANDIN_EXPORT const Control* control() __asm__("standin_cuda_control");
const Control* control() {
  return &kControl;
}

}  // namespace stepgate::standin

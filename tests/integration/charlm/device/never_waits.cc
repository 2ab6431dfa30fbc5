// Linked into a copy of charlm that may not ask the gate for a decision: the program's own
// stepgate_step_wait() is found before the plugin's. At the end it says how often the host has waited for
// the stand-in driver, whoever made it wait.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/standin_cuda/driver/control.h"

extern "C" __attribute__((visibility("default"))) int stepgate_step_wait(void*, unsigned, void*) {
  std::fputs("charlm asked for the decision\n", stderr);
  std::_Exit(99);
}

namespace {

using namespace stepgate::standin;

const Control* control() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void* found = driver != nullptr ? dlsym(driver, kControlSymbol) : nullptr;
  return found != nullptr ? reinterpret_cast<ControlFunction>(found)() : nullptr;
}

void tell_waits() {
  const Control* table = control();
  if (table == nullptr) return;
  std::vector<CallRecord> calls(table->calls(nullptr, 0));
  table->calls(calls.data(), calls.size());
  int waits = 0;
  for (const CallRecord& call : calls) waits += call.waited;
  std::fprintf(stderr, "driver waits: %d\n", waits);
}

}  // namespace

// main() of charlm, renamed by the build: at the exit proper the stand-in's lists are gone.
int charlm_main(int argc, char** argv);

int main(int argc, char** argv) {
  const int status = charlm_main(argc, argv);
  tell_waits();
  return status;
}

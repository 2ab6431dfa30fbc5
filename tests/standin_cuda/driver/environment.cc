#include "tests/standin_cuda/driver/environment.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/standin_cuda/driver/calls.h"

namespace stepgate::standin {
namespace {

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

Options options_from_environment() {
  Options o;
  o.devices = static_cast<int>(number("STEPGATE_STANDIN_DEVICES", 1));
  o.driver_version = static_cast<int>(number("STEPGATE_STANDIN_DRIVER_VERSION", 13000));
  o.guard = number("STEPGATE_STANDIN_GUARD", 0) != 0;
  o.max_delay_us = static_cast<unsigned>(number("STEPGATE_STANDIN_DELAY_US", 0));
  o.seed = number("STEPGATE_STANDIN_SEED", 1);
  return o;
}

void fail_from_environment() {
  const char* text = std::getenv("STEPGATE_STANDIN_FAIL");
  if (text == nullptr) return;
  char name[40];
  unsigned long long index = 0;
  int code = 0;
  if (std::sscanf(text, "%39[^:]:%llu:%d", name, &index, &code) != 3) {
    std::fprintf(stderr, "stand-in CUDA: STEPGATE_STANDIN_FAIL is '%s'; allowed: name:index:code\n", text);
    return;
  }
  const std::string wanted = name;
  calls().fail(wanted == "*" ? nullptr : name, index, static_cast<Result>(code), 1);
}

}  // namespace stepgate::standin

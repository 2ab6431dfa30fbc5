#include "collectives/device/cuda/error_text.h"

#include <cstdarg>
#include <cstdio>

namespace stepgate::device::cuda {
namespace {

constexpr std::size_t kTextBytes = 320;

char* text() noexcept {
  thread_local char buffer[kTextBytes] = "no error";
  return buffer;
}

}  // namespace

Code fail(Code code, const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text(), kTextBytes, format, arguments);
  va_end(arguments);
  return code;
}

Code driver_failed(const Driver& driver, const char* operation, const char* function, const char* detail,
                   Result result) noexcept {
  const Code code = result == Result::kOutOfMemory ? Code::kOutOfMemory : Code::kDriver;
  return fail(code, "%s: %s%s%s%s: %s (%d)", operation, function, *detail != '\0' ? "(" : "", detail,
              *detail != '\0' ? ")" : "", driver.error_name(result), static_cast<int>(result));
}

const char* last_text() noexcept {
  return text();
}

}  // namespace stepgate::device::cuda

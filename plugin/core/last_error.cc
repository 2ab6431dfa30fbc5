#include "plugin/core/last_error.h"

#include <utility>

namespace stepgate::gate {
namespace {

std::string& slot() {
  thread_local std::string text;
  return text;
}

}  // namespace

stepgate_status fail(stepgate_status status, std::string text) noexcept {
  slot() = std::move(text);
  return status;
}

const char* last_error() noexcept {
  return slot().c_str();
}

void clear_last_error() noexcept {
  slot().clear();
}

}  // namespace stepgate::gate

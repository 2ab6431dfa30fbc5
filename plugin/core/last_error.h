// The sentence behind stepgate_last_error(): per thread, as errno is.
//
// Thread: each its own. The text stays valid until the thread's next failing call.
#pragma once

#include <string>

#include "stepgate/stepgate.h"

namespace stepgate::gate {

// Remembers the sentence and hands the status back: `return fail(STEPGATE_INVALID, "...");`.
stepgate_status fail(stepgate_status status, std::string text) noexcept;
const char* last_error() noexcept;
void clear_last_error() noexcept;

}  // namespace stepgate::gate

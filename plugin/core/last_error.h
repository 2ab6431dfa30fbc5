// The sentence behind stepgate_last_error(): per thread, as errno is.
//
// Thread: each its own. The text stays valid until the thread's next failing call. It needs no allocation
// and no destructor, so calls that fail answer at any time: also in the handlers and destructors of an exit.
#pragma once

#include <string>

#include "stepgate/stepgate.h"

namespace stepgate::gate {

// Remembers the sentence and hands the status back: `return fail(STEPGATE_INVALID, "...");`. One of 4 KiB
// or more is cut.
stepgate_status fail(stepgate_status status, const std::string& text) noexcept;
const char* last_error() noexcept;
void clear_last_error() noexcept;

}  // namespace stepgate::gate

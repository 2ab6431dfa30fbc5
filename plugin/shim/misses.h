// Ways to NCCL that the hooks do not see: found, said once each, counted by cause.
//
// Thread: any. Lock: one mutex of its own over what has been said, never held across a call into NCCL or
// the core. Nothing is looked for before a communicator, a stepgate_* call or the end of the process.
#pragma once

#include <string>

#include "plugin/core/core_entry.h"
#include "plugin/survey/judge.h"

namespace stepgate::shim {

// Counts it; the first time for this cause and object the sentence goes to the core's log, which is opened
// for it.
void note_miss(survey::Cause cause, const std::string& object, const std::string& text) noexcept;

// Walks over the loaded objects and notes what it finds, each once: but for `dlsym`, which only a
// communicator or the process's end can tell. Some milliseconds in a big process.
void survey_process() noexcept;

// A communicator that no hook saw made is in use: counted under what the survey shows, else as `unhooked`,
// or as `hidden` where no object of the process exports NCCL. from: what it was noticed by.
survey::Cause note_unhooked(const char* from) noexcept;
// One more call on it.
void count_miss(survey::Cause cause) noexcept;

// So far, for the core's metrics. cause: a survey::Cause.
std::uint64_t misses_of(std::uint32_t cause) noexcept;

}  // namespace stepgate::shim

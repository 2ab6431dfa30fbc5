// The groups of figures that timing.cc takes. Each writes its lines into the results.
//
// Thread: the program's one. Order: any. Lock: none. Ownership: nothing is kept.
#pragma once

#include "tests/gpu/results.h"
#include "tests/gpu/rivals.h"
#include "tests/gpu/session.h"
#include "tests/gpu/timer.h"

namespace stepgate::gpu {

// Launches and driver calls of each piece of a step; none that waits, asks or allocates.
void count_calls(Session& session, Results& results);
void time_scans(Session& session, const Options& options, Rivals& rivals, Timer& timer, Results& results);
void time_in_place(Session& session, const Options& options, Rivals& rivals, Timer& timer, Results& results);
// The tail behind the last scan, the whole step, the host's share.
void time_step(Session& session, const Options& options, Timer& timer, Results& results);

}  // namespace stepgate::gpu

// The groups of checks that correctness.cc runs. Each writes its lines into the results.
//
// Thread: the program's one. Order: any. Lock: none. Ownership: nothing is kept.
#pragma once

#include "tests/gpu/results.h"
#include "tests/gpu/session.h"

namespace stepgate::gpu {

void scan_cases(Session& session, const Options& options, Results& results);
// apply, widen, in place, observe_update.
void product_cases(Session& session, const Options& options, Results& results);
// The same bits from several grids and cuts.
void grid_cases(Session& session, const Options& options, Results& results);
// Whole steps against HostDevice; captured whole, in part, and replayed.
void step_cases(Session& session, const Options& options, Results& results);

}  // namespace stepgate::gpu

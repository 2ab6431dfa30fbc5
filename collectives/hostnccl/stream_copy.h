// A collective of one rank on a device's memory: a copy on its stream, as in NCCL.
//
// Threads: any. No order of its own, no lock; the stream orders it. Nothing owned.
#pragma once

#include "collectives/hostnccl/flight.h"

namespace stepgate::hostnccl {

Outcome copy_on_stream(const Call& call);

}  // namespace stepgate::hostnccl

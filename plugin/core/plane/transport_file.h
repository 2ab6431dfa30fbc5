// Opens libstepgate_ucx.so beside the core, once it is asked for, and says whether UCX may be loaded at
// all: libucs acts when it is loaded, by its environment (collectives/ucx/README.md), and that must have
// been made safe before the job had threads: by `stepgate run` before exec, or by the shim's constructor.
//
// Thread: any; the caller keeps to one. The library is never closed: UCX does not survive that.
#pragma once

#include <string>

#include "collectives/ucx/transport.h"
#include "plugin/core/identity.h"

namespace stepgate::plane {

// "" safe, else a sentence with what to export.
std::string unsafe_ucx_environment(const gate::Environment& environment);

// nullptr with *error.
const sgt_table* open_transport(std::string* error);

}  // namespace stepgate::plane

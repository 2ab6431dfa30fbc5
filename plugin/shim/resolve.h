// Finding the real NCCL function behind a hook. Several NCCL copies may live in one process, loaded
// RTLD_LOCAL or built into a caller, so the search starts at who called:
//
//   1. the caller's own object: its scope holds "pncclX" (or an "ncclX" that is not the hook)
//   2. libnccl.so.2, only if it is loaded already: the plugin never loads an NCCL of its own
//   3. the next object in the global search order
//
// All functions of a copy come from the one object that the first was found in.
// Thread: any; a mutex of its own, never held across a call into NCCL. Copies live for ever.
#pragma once

#include "plugin/shim/nccl_functions.h"

namespace stepgate::shim {

// The copy that the code at `caller` (a return address) means; nullptr when there is none. The first
// call from an address costs some microseconds, later ones a table look-up.
const NcclCopy* resolve_copy(const void* caller) noexcept;

// `caller` is code of the copy itself: NCCL calls some of its own exports.
bool inside_copy(const NcclCopy& copy, const void* caller) noexcept;

}  // namespace stepgate::shim

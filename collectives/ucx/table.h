// The C table as the inside knows it; entry.cc exports it, tests call it directly. Any thread.
#pragma once

#include "collectives/ucx/transport.h"

namespace stepgate::transport {

// NULL when this build does not speak `abi_version`.
const sgt_table* table(uint32_t abi_version) noexcept;

}  // namespace stepgate::transport

// A free port for MASTER_PORT.
//
// Thread: any. Order, lock: none. Ownership: nothing stays bound, so the port is free, not reserved.
#pragma once

#include <cstdint>

namespace stepgate::command {

// A port p on the loopback address with p + 1 free as well: the rendezvous of the UCX plane takes
// p + 1 by default. Below the range that the kernel hands out to outgoing connections, so that none
// of those takes it before rank 0 does. Throws std::runtime_error.
std::uint16_t free_port_pair();

}  // namespace stepgate::command

// Whether two ranks share a host in the sense that matters here: one kernel, one /dev/shm and one pid
// name space, so that shared memory and its liveness check work between them. Pure look-ups; any thread.
#pragma once

#include <string>

namespace stepgate::transport {

// At most 63 characters. Empty parts where the system does not say.
std::string host_identity();

}  // namespace stepgate::transport

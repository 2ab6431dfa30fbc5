// Ports: which TCP ports a metrics page may try, and whether one can be had.
//
// Pure but for the sockets that probe_port opens and closes; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "metrics/exposition.h"

namespace stepgate::metrics {

inline constexpr int kHighestPort = 65535;

// Whether a TCP port can be had. kBadAddress: no port of this address can.
enum class BindResult { kFree, kTaken, kBadAddress };

// Asks the system, since the server's own error does not say. *why: the reason of kBadAddress.
BindResult probe_port(const std::string& address, std::uint16_t port, std::string* why);

// The ports to try, in order: the rank's own, then those above the local ranks' range.
std::vector<std::uint16_t> candidate_ports(const ExpositionOptions& options);

// The address as the server wants it: "localhost" is the numeric loopback address.
std::string numeric_address(const std::string& address);

}  // namespace stepgate::metrics

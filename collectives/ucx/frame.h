// The unit of the control channel: a type (protocol.h) and bytes. Plain data.
#pragma once

#include <cstdint>
#include <string>

namespace stepgate::transport {

struct Frame {
  uint32_t type = 0;
  std::string body;
};

}  // namespace stepgate::transport

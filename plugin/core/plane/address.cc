#include "plugin/core/plane/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>

namespace stepgate::plane {

bool split_address(const std::string& text, std::string* host, std::uint16_t* port) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || text.find(':') != colon) return false;
  const char* end = text.data() + text.size();
  unsigned number = 0;
  const auto [stop, code] = std::from_chars(text.data() + colon + 1, end, number);
  if (code != std::errc() || stop != end || number < 1 || number > 65535) return false;
  *host = text.substr(0, colon);
  *port = static_cast<std::uint16_t>(number);
  return true;
}

bool on_loopback(const std::string& host) {
  in_addr address{};
  if (host == "localhost") return true;
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == IN_LOOPBACKNET;
}

}  // namespace stepgate::plane

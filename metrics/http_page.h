// HttpPage: the live page, and the search for a port it can have.
//
// Threads: open and destroy from one thread; the page's own two threads serve scrapes with every
// asynchronous signal blocked. Ownership: the publisher. Fork: a child that inherits an HttpPage
// leaks the server (its threads do not exist there); only the process that opened it closes it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "metrics/exposition.h"
#include "metrics/registry.h"

namespace prometheus {
class Exposer;
}

namespace stepgate::metrics {

// Whether a TCP port can be had. kBadAddress: no port of this address can.
enum class BindResult { kFree, kTaken, kBadAddress };

// Asks the system, since the server's own error does not say. *why: the reason of kBadAddress.
BindResult probe_port(const std::string& address, std::uint16_t port, std::string* why);

class HttpPage {
 public:
  // nullptr when there is no page to be had; *error then says the address, the ports and why.
  static std::unique_ptr<HttpPage> open(const ExpositionOptions& options,
                                        const std::shared_ptr<prometheus::Collectable>& page,
                                        std::string* error);
  ~HttpPage();
  HttpPage(const HttpPage&) = delete;
  HttpPage& operator=(const HttpPage&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  HttpPage(std::unique_ptr<prometheus::Exposer> exposer, std::string address, std::uint16_t port);
  static std::unique_ptr<HttpPage> try_port(const std::string& address, std::uint16_t port,
                                            const std::shared_ptr<prometheus::Collectable>& page,
                                            BindResult* result, std::string* why);
  static std::unique_ptr<HttpPage> serve(const std::string& address, std::uint16_t port,
                                         const std::shared_ptr<prometheus::Collectable>& page,
                                         std::string* why);

  std::unique_ptr<prometheus::Exposer> exposer_;
  const std::string address_;  // numeric
  const std::uint16_t port_;
  const pid_t owner_;
};

}  // namespace stepgate::metrics

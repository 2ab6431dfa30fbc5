// HttpPage: the live page, and the search for a port it can have.
//
// Threads: open and destroy from one thread; the page's own two threads serve scrapes with every
// asynchronous signal blocked. Ownership: the publisher. Fork: a child that inherits an HttpPage
// leaks the server (its threads do not exist there); only the process that opened it closes it.
// TLS: Debian's civetweb alone would crash at the first connection; see metrics/tls/bridge.h.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "metrics/exposition.h"
#include "metrics/page_security.h"
#include "metrics/ports.h"
#include "metrics/registry.h"

namespace prometheus {
class Exposer;
}

namespace stepgate::metrics {

class HttpPage {
 public:
  // nullptr when there is no page to be had; *error then says the address, the ports or the file, and why.
  // *notes: what its owner should know about a page that there is; may be null.
  static std::unique_ptr<HttpPage> open(const ExpositionOptions& options,
                                        const std::shared_ptr<prometheus::Collectable>& page,
                                        std::string* error, std::string* notes = nullptr);
  ~HttpPage();
  HttpPage(const HttpPage&) = delete;
  HttpPage& operator=(const HttpPage&) = delete;

  std::uint16_t port() const { return port_; }
  const char* scheme() const { return security_.tls ? "https" : "http"; }

 private:
  HttpPage(std::string address, PageSecurity security);
  BindResult try_port(std::uint16_t port, const std::shared_ptr<prometheus::Collectable>& page,
                      std::string* why);
  bool serve(std::uint16_t port, const std::shared_ptr<prometheus::Collectable>& page, std::string* why);

  const std::string address_;  // numeric
  const pid_t owner_;
  PageSecurity security_;  // leaked with the server in a forked child
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::uint16_t port_ = 0;
};

}  // namespace stepgate::metrics

#include "metrics/http_page.h"

#include <CivetServer.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "metrics/signal_guard.h"

namespace stepgate::metrics {
namespace {

constexpr int kHighestPort = 65535;
constexpr const char* kAnyAddress = "0.0.0.0";

std::string numeric(const std::string& address) {
  return address == "localhost" ? "127.0.0.1" : address;
}

// The ports to try, in order.
std::vector<std::uint16_t> candidate_ports(const ExpositionOptions& o) {
  if (o.first_port == 0) return {0};
  std::vector<std::uint16_t> ports;
  const auto add = [&ports](int port) {
    if (port > 0 && port <= kHighestPort) ports.push_back(static_cast<std::uint16_t>(port));
  };
  add(o.first_port + o.local_rank);
  const int above = o.first_port + (o.local_world > o.local_rank ? o.local_world : o.local_rank + 1);
  for (int i = 0; i < kFallbackPorts; ++i) add(above + i);
  return ports;
}

BindResult bind_once(const sockaddr_in& where, std::string* why) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    *why = std::strerror(errno);
    return BindResult::kBadAddress;
  }
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // as the server does
  // listen too: with reuse, two may bind one port and only the second to listen is refused.
  const bool ok =
      bind(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0 && listen(fd, 1) == 0;
  const int error = ok ? 0 : errno;
  close(fd);
  if (ok) return BindResult::kFree;
  if (error == EADDRINUSE || error == EACCES) return BindResult::kTaken;
  *why = std::strerror(error);
  return BindResult::kBadAddress;
}

constexpr const char* kServingThreads = "2";
constexpr unsigned kServerThreads = 3;  // those and the accepting one
constexpr auto kLongestStart = std::chrono::seconds(2);

std::atomic<unsigned> threads_started{0};
std::atomic<unsigned> threads_wanted{0};

// Each thread of the server sets SIGPIPE to ignored, for the whole process, as the first thing it does: that
// may be after the server's constructor has returned. It calls this back next.
CivetCallbacks count_threads() {
  CivetCallbacks callbacks;
  callbacks.init_thread = [](const mg_context*, int) -> void* {
    threads_started.fetch_add(1);
    return nullptr;
  };
  return callbacks;
}

// Until then the guard must stay. The bound is for a server that starts its threads when it needs them.
void wait_for_threads() {
  const unsigned wanted = threads_wanted.fetch_add(kServerThreads) + kServerThreads;
  const auto end = std::chrono::steady_clock::now() + kLongestStart;
  while (static_cast<int>(threads_started.load() - wanted) < 0) {
    if (std::chrono::steady_clock::now() > end) return threads_wanted.store(threads_started.load());
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// One connection, opened and closed. Failure is of no interest.
void knock(const sockaddr_in& where) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  static_cast<void>(connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where));
  close(fd);
}

// Knocks until told to stop: the server's accepting thread sleeps up to two seconds at a time, and
// only looks whether it should end when somebody comes.
class Knocker {
 public:
  explicit Knocker(std::uint16_t port, const std::string& address) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    const std::string to = address == kAnyAddress ? "127.0.0.1" : address;
    if (inet_pton(AF_INET, to.c_str(), &where.sin_addr) != 1) return;
    const SignalGuard guard;
    try {
      thread_ = std::thread([this, where] {
        while (!done_) {
          knock(where);
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
      });
    } catch (const std::exception&) {  // then the end takes its two seconds
    }
  }
  ~Knocker() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
  }
  Knocker(const Knocker&) = delete;
  Knocker& operator=(const Knocker&) = delete;

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace

BindResult probe_port(const std::string& address, std::uint16_t port, std::string* why) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  if (inet_pton(AF_INET, numeric(address).c_str(), &where.sin_addr) != 1) {
    *why = "it is neither a numeric IPv4 address nor localhost";
    return BindResult::kBadAddress;
  }
  return bind_once(where, why);
}

std::unique_ptr<HttpPage> HttpPage::open(const ExpositionOptions& options,
                                         const std::shared_ptr<prometheus::Collectable>& page,
                                         std::string* error) {
  const std::vector<std::uint16_t> ports = candidate_ports(options);
  std::string why;
  for (const std::uint16_t port : ports) {
    BindResult result = BindResult::kFree;
    auto opened = try_port(options.address, port, page, &result, &why);
    if (opened) return opened;
    if (result == BindResult::kBadAddress) {
      *error = absl::StrCat("metrics address '", options.address, "' cannot be used: ", why);
      return nullptr;
    }
  }
  *error = ports.empty()
               ? absl::StrCat("metrics port ", options.first_port, " + local rank ", options.local_rank,
                              " is above ", kHighestPort)
               : absl::StrCat("no free metrics port on ", options.address, ": tried ", ports.front(),
                              " and the ", ports.size() - 1, " above the local ranks' own, up to ",
                              ports.back(), why.empty() ? "" : "; last: ", why);
  return nullptr;
}

std::unique_ptr<HttpPage> HttpPage::try_port(const std::string& address, std::uint16_t port,
                                             const std::shared_ptr<prometheus::Collectable>& page,
                                             BindResult* result, std::string* why) {
  *result = probe_port(address, port, why);
  if (*result != BindResult::kFree) return nullptr;
  auto opened = serve(address, port, page, why);
  if (!opened) *result = BindResult::kTaken;  // somebody was faster
  return opened;
}

std::unique_ptr<HttpPage> HttpPage::serve(const std::string& address, std::uint16_t port,
                                          const std::shared_ptr<prometheus::Collectable>& page,
                                          std::string* why) {
  const SignalGuard guard;
  const CivetCallbacks callbacks = count_threads();
  try {
    // No document root, ever: the server then has nothing to serve but this page.
    auto exposer = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", absl::StrCat(numeric(address), ":", port), "num_threads",
                                 kServingThreads},
        &callbacks);
    wait_for_threads();
    exposer->RegisterCollectable(page, kPagePath);
    const std::vector<int> ports = exposer->GetListeningPorts();
    const auto bound = ports.empty() ? port : static_cast<std::uint16_t>(ports.front());
    return std::unique_ptr<HttpPage>(new HttpPage(std::move(exposer), numeric(address), bound));
  } catch (const std::exception& e) {
    *why = e.what();
    return nullptr;
  }
}

HttpPage::HttpPage(std::unique_ptr<prometheus::Exposer> exposer, std::string address, std::uint16_t port)
    : exposer_(std::move(exposer)), address_(std::move(address)), port_(port), owner_(getpid()) {}

HttpPage::~HttpPage() {
  if (getpid() != owner_) {
    // In a forked child the server's threads do not exist and joining them would wait for ever.
    static_cast<void>(exposer_.release());
    return;
  }
  const Knocker knocker(port_, address_);
  exposer_.reset();
}

}  // namespace stepgate::metrics

#include "metrics/http_page.h"

#include <CivetServer.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "metrics/signal_guard.h"

namespace stepgate::metrics {
namespace {

constexpr const char* kAnyAddress = "0.0.0.0";
constexpr const char* kRealm = "StepGate";

constexpr const char* kServingThreads = "2";
constexpr unsigned kServerThreads = 3;  // those and the accepting one
constexpr auto kLongestStart = std::chrono::seconds(2);

std::atomic<unsigned> threads_started{0};
std::atomic<unsigned> threads_wanted{0};

// What the server's callbacks need while its constructor runs: they are called in the same thread, and are
// given nothing that would lead to the page.
struct Starting {
  explicit Starting(void* ssl_context);
  ~Starting();
  Starting(const Starting&) = delete;
  Starting& operator=(const Starting&) = delete;
  void* const context;  // SSL_CTX of the page that is being opened, or null
  std::string said;     // the server's own words about what went wrong
};
thread_local Starting* starting = nullptr;

Starting::Starting(void* ssl_context) : context(ssl_context) {
  starting = this;
}
Starting::~Starting() {
  starting = nullptr;
}

// Asked when the server starts, with nothing in *context, and when it ends, with ours: 1 says that it is
// ours to make and to free.
int hand_over_context(void** context, void*) {
  if (*context != nullptr) return 1;
  if (starting == nullptr || starting->context == nullptr) return 0;
  *context = starting->context;
  return 1;
}

// The page keeps the credentials alive for as long as the server asks.
std::function<bool(const std::string&, const std::string&)> asks_for(const Credentials& known) {
  return
      [&known](const std::string& user, const std::string& password) { return known.match(user, password); };
}

int keep_message(const mg_connection*, const char* message) {
  if (starting != nullptr && starting->said.empty()) starting->said = message;
  return 1;
}

// Each thread of the server sets SIGPIPE to ignored, for the whole process, as the first thing it does: that
// may be after the server's constructor has returned. It calls this back next.
CivetCallbacks server_callbacks() {
  CivetCallbacks callbacks;
  callbacks.init_thread = [](const mg_context*, int) -> void* {
    threads_started.fetch_add(1);
    return nullptr;
  };
  callbacks.external_ssl_ctx = hand_over_context;
  callbacks.log_message = keep_message;
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

std::unique_ptr<HttpPage> HttpPage::open(const ExpositionOptions& options,
                                         const std::shared_ptr<prometheus::Collectable>& page,
                                         std::string* error, std::string* notes) {
  PageSecurity security;
  std::string said;
  if (!security.load(options, error, &said)) return nullptr;
  if (notes != nullptr) *notes = said;
  std::unique_ptr<HttpPage> opened(new HttpPage(numeric_address(options.address), std::move(security)));
  const std::vector<std::uint16_t> ports = candidate_ports(options);
  std::string why;
  for (const std::uint16_t port : ports) {
    const BindResult result = opened->try_port(port, page, &why);
    if (result == BindResult::kFree) return opened;
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

BindResult HttpPage::try_port(std::uint16_t port, const std::shared_ptr<prometheus::Collectable>& page,
                              std::string* why) {
  const BindResult result = probe_port(address_, port, why);
  if (result != BindResult::kFree) return result;
  return serve(port, page, why) ? BindResult::kFree : BindResult::kTaken;  // somebody was faster
}

bool HttpPage::serve(std::uint16_t port, const std::shared_ptr<prometheus::Collectable>& page,
                     std::string* why) {
  const SignalGuard guard;
  const CivetCallbacks callbacks = server_callbacks();
  Starting start(security_.tls ? security_.tls->handle() : nullptr);
  try {
    // No document root, ever: the server then has nothing to serve but this page.
    exposer_ = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports",
                                 absl::StrCat(address_, ":", port, security_.tls ? "s" : ""), "num_threads",
                                 kServingThreads},
        &callbacks);
    wait_for_threads();
    // The lock before the door.
    if (security_.credentials) exposer_->RegisterAuth(asks_for(*security_.credentials), kRealm, kPagePath);
    exposer_->RegisterCollectable(page, kPagePath);
    const std::vector<int> ports = exposer_->GetListeningPorts();
    port_ = ports.empty() ? port : static_cast<std::uint16_t>(ports.front());
    return true;
  } catch (const std::exception& e) {
    exposer_.reset();
    *why = start.said.empty() ? e.what() : start.said;
    return false;
  }
}

HttpPage::HttpPage(std::string address, PageSecurity security)
    : address_(std::move(address)), owner_(getpid()), security_(std::move(security)) {}

HttpPage::~HttpPage() {
  if (getpid() != owner_) {
    // In a forked child the server's threads do not exist and joining them would wait for ever.
    static_cast<void>(exposer_.release());
    static_cast<void>(security_.tls.release());
    return;
  }
  if (!exposer_) return;
  const Knocker knocker(port_, address_);
  exposer_.reset();
}

}  // namespace stepgate::metrics

// UCX as the collectives need it: one context and worker of this rank, an endpoint per peer made at
// first use, tagged sends and receives that are polled for completion. UCX's own environment variables
// are not consulted for what we set; what we set goes through ucp_config_modify.
// Thread: one at a time (the world's lock). Errors on set-up are thrown; later ones sit in the request,
// and failed_peer() names the first rank whose endpoint failed (error mode PEER).
// Ownership: buffers of a posted request belong to it until done() says true.
#pragma once

#include <ucp/api/ucp.h>

#include <string>
#include <utility>
#include <vector>

#include "collectives/ucx/deadline.h"

namespace stepgate::transport {

// A posted message. Move-only; must be done (or abandoned by Fabric::close) before it goes away.
class Request {
 public:
  Request() = default;
  explicit Request(ucs_status_ptr_t handle);
  Request(Request&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), status_(other.status_), length_(other.length_) {}
  Request& operator=(Request&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(status_, other.status_);
    std::swap(length_, other.length_);
    return *this;
  }
  ~Request() { forget(); }

  // True once UCX no longer touches the buffer.
  bool done_sending();
  bool done_receiving();
  bool ok() const { return status_ == UCS_OK; }
  ucs_status_t status() const { return status_; }
  // Of a completed receive.
  size_t length() const { return length_; }

  void cancel(ucp_worker_h worker);

 private:
  bool finish(ucs_status_t status);
  void forget();

  void* handle_ = nullptr;
  ucs_status_t status_ = UCS_OK;
  size_t length_ = 0;
};

class Fabric {
 public:
  struct Settings {
    bool shared_memory = false;  // else TCP
    std::string device;          // of TCP; empty: any
    int size = 1;
  };

  explicit Fabric(const Settings& settings);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  std::string address() const;
  void set_peers(std::vector<std::string> addresses) { addresses_ = std::move(addresses); }

  Request send(int peer, const void* data, size_t bytes, uint64_t tag);
  Request receive(int peer, void* data, size_t bytes, uint64_t tag);
  // flushed() when all that was sent before has left this rank, UCX's own messages of wiring up included.
  void flush();
  bool flushed() { return finished(flushing_); }
  bool progress() { return ucp_worker_progress(worker_) != 0; }

  // True: nothing is pending and the next event makes event_fd() readable.
  bool arm() { return ucp_worker_arm(worker_) == UCS_OK; }
  int event_fd() const { return event_fd_; }
  ucp_worker_h worker() const { return worker_; }

  int failed_peer() const { return failed_peer_; }

  // Closes every endpoint by force: nothing more is delivered. Sends posted to them complete, with an
  // error if they must. Flush before it where the peers live: UCX 1.13 aborts the process if its own answer
  // to a peer that wires up waits behind a long message at this moment. False: some were still open at the
  // deadline; call again, or never destroy this fabric, since UCX aborts the process over a worker that is
  // not at rest.
  bool close_endpoints(Deadline deadline);

  // Compile-time and run-time UCX agree in major and minor version; else throws SGT_VERSION.
  static void check_version();

 private:
  struct Endpoint {
    Fabric* fabric = nullptr;
    int peer = -1;
    ucp_ep_h handle = nullptr;
    ucs_status_t failure = UCS_OK;
  };

  void open_context(const Settings& settings);
  void open_worker();
  void close_worker();
  Endpoint& endpoint(int peer);
  static bool finished(std::vector<Request>& requests);
  static void on_endpoint_failure(void* endpoint, ucp_ep_h handle, ucs_status_t status);

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::vector<std::string> addresses_;
  std::vector<Endpoint> endpoints_;  // by rank
  int failed_peer_ = -1;
  std::vector<Request> flushing_;
  std::vector<Request> closing_;
};

}  // namespace stepgate::transport

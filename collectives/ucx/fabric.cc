#include "collectives/ucx/fabric.h"

#include <sched.h>

#include <memory>

#include "collectives/signals/blocked_signals.h"
#include "collectives/ucx/error.h"

namespace stepgate::transport {
namespace {

// The prefix under which UCX looks for environment variables on our behalf: nobody sets these, so the
// job's UCX_* settings (meant for its own MPI or UCC) do not reach us.
constexpr char kPrefix[] = "STEPGATE";

void check(ucs_status_t status, const char* what) {
  if (status != UCS_OK) throw Error(SGT_SYSTEM, std::string(what) + ": " + ucs_status_string(status));
}

using Config = std::unique_ptr<ucp_config_t, decltype(&ucp_config_release)>;

Config read_config() {
  ucp_config_t* config = nullptr;
  check(ucp_config_read(kPrefix, nullptr, &config), "ucp_config_read");
  return Config(config, &ucp_config_release);
}

void set(const Config& config, const char* name, const std::string& value) {
  const ucs_status_t status = ucp_config_modify(config.get(), name, value.c_str());
  if (status != UCS_OK)
    throw Error(SGT_SYSTEM,
                std::string("UCX refuses ") + name + "=" + value + ": " + ucs_status_string(status));
}

Config make_config(const Fabric::Settings& settings) {
  Config config = read_config();
  set(config, "TLS", settings.shared_memory ? "posix,cma,self" : "tcp,self");
  if (!settings.shared_memory && !settings.device.empty()) set(config, "NET_DEVICES", settings.device);
  // Without this shared memory does not qualify for error mode PEER; the default interval is 20 s.
  if (settings.shared_memory) set(config, "MM_ERROR_HANDLING", "y");
  set(config, "KEEPALIVE_INTERVAL", "1s");
  // Peers exchange their endpoints' numbers when endpoints are made, not with the first long message: what
  // UCX says then must be said before endpoints are closed.
  set(config, "RESOLVE_REMOTE_EP_ID", "y");
  return config;
}

}  // namespace

Request::Request(ucs_status_ptr_t handle) {
  if (UCS_PTR_IS_ERR(handle))
    status_ = UCS_PTR_STATUS(handle);
  else
    handle_ = handle;
}

bool Request::done_sending() {
  return handle_ == nullptr || finish(ucp_request_check_status(handle_));
}

bool Request::done_receiving() {
  if (handle_ == nullptr) return true;
  ucp_tag_recv_info_t info{};
  const ucs_status_t status = ucp_tag_recv_request_test(handle_, &info);
  length_ = info.length;
  return finish(status);
}

bool Request::finish(ucs_status_t status) {
  if (status == UCS_INPROGRESS) return false;
  status_ = status;
  forget();
  return true;
}

void Request::cancel(ucp_worker_h worker) {
  if (handle_ != nullptr) ucp_request_cancel(worker, handle_);
}

// A request that never completed is released by UCX when it does.
void Request::forget() {
  if (handle_ != nullptr) ucp_request_free(handle_);
  handle_ = nullptr;
}

void Fabric::check_version() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  if (major == UCP_API_MAJOR && minor == UCP_API_MINOR) return;
  throw Error(SGT_VERSION, "UCX " + std::to_string(major) + "." + std::to_string(minor) +
                               " lives in this process; this library was built for " +
                               std::to_string(UCP_API_MAJOR) + "." + std::to_string(UCP_API_MINOR));
}

Fabric::Fabric(const Settings& settings) {
  const signals::BlockedSignals block;  // ucp_init starts a thread
  try {
    open_context(settings);
    open_worker();
  } catch (...) {
    close_worker();
    throw;
  }
  endpoints_.resize(static_cast<size_t>(settings.size));
}

Fabric::~Fabric() {
  close_endpoints(Deadline::after(1));
  close_worker();
}

void Fabric::open_context(const Settings& settings) {
  const Config config = make_config(settings);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = static_cast<size_t>(settings.size);
  check(ucp_init(&params, config.get(), &context_), "ucp_init");
}

void Fabric::open_worker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  check(ucp_worker_create(context_, &params, &worker_), "ucp_worker_create");
  check(ucp_worker_get_efd(worker_, &event_fd_), "ucp_worker_get_efd");
}

void Fabric::close_worker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
  worker_ = nullptr;
  context_ = nullptr;
}

std::string Fabric::address() const {
  ucp_address_t* address = nullptr;
  size_t length = 0;
  check(ucp_worker_get_address(worker_, &address, &length), "ucp_worker_get_address");
  std::string bytes(reinterpret_cast<const char*>(address), length);
  ucp_worker_release_address(worker_, address);
  return bytes;
}

Fabric::Endpoint& Fabric::endpoint(int peer) {
  Endpoint& endpoint = endpoints_[static_cast<size_t>(peer)];
  if (endpoint.handle != nullptr || endpoint.failure != UCS_OK) return endpoint;
  endpoint.fabric = this;
  endpoint.peer = peer;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(addresses_[static_cast<size_t>(peer)].data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &Fabric::on_endpoint_failure;
  params.err_handler.arg = &endpoint;
  endpoint.failure = ucp_ep_create(worker_, &params, &endpoint.handle);
  return endpoint;
}

void Fabric::on_endpoint_failure(void* arg, ucp_ep_h, ucs_status_t status) {
  auto* endpoint = static_cast<Endpoint*>(arg);
  endpoint->failure = status;
  if (endpoint->fabric->failed_peer_ < 0) endpoint->fabric->failed_peer_ = endpoint->peer;
}

Request Fabric::send(int peer, const void* data, size_t bytes, uint64_t tag) {
  Endpoint& to = endpoint(peer);
  if (to.failure != UCS_OK) return Request(UCS_STATUS_PTR(to.failure));
  ucp_request_param_t params{};
  return Request(ucp_tag_send_nbx(to.handle, data, bytes, tag, &params));
}

// Always as a request: UCX 1.13 does not report the length of a receive that completes at once. And always
// with an endpoint of ours to the sender: UCX answers a long message over one of its own making otherwise,
// which nobody can close, and a receive that hangs on it makes ucp_worker_destroy abort the process.
Request Fabric::receive(int peer, void* data, size_t bytes, uint64_t tag) {
  if (endpoint(peer).failure != UCS_OK) return Request(UCS_STATUS_PTR(endpoint(peer).failure));
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  return Request(ucp_tag_recv_nbx(worker_, data, bytes, tag, ~uint64_t{0}, &params));
}

bool Fabric::finished(std::vector<Request>& requests) {
  std::erase_if(requests, [](Request& r) { return r.done_sending(); });
  return requests.empty();
}

void Fabric::flush() {
  const ucp_request_param_t params{};
  for (const Endpoint& endpoint : endpoints_)
    if (endpoint.handle != nullptr && endpoint.failure == UCS_OK)
      flushing_.emplace_back(ucp_ep_flush_nbx(endpoint.handle, &params));
}

bool Fabric::close_endpoints(Deadline deadline) {
  for (Endpoint& endpoint : endpoints_) {
    if (endpoint.handle == nullptr) continue;
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_EP_CLOSE_FLAG_FORCE;  // legal in error mode PEER only
    closing_.emplace_back(ucp_ep_close_nbx(endpoint.handle, &params));
    endpoint.handle = nullptr;
    endpoint.failure = UCS_ERR_CANCELED;
  }
  while (!(finished(closing_) && flushed()) && !deadline.passed()) {
    progress();
    sched_yield();
  }
  return closing_.empty() && flushing_.empty();
}

}  // namespace stepgate::transport

#include "tests/gpu/session.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace stepgate::gpu {

namespace cuda = device::cuda;
using cuda::Result;

void give_up(const std::string& why) {
  std::fprintf(stderr, "gpu: %s\n", why.c_str());
  std::exit(1);
}

Options options_from(int argc, char** argv) {
  Options o;
  const auto value = [&](int& i) -> std::string {
    if (i + 1 >= argc) give_up(std::string(argv[i]) + " needs a value");
    return argv[++i];
  };
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--image") {
      o.image = value(i);
    } else if (word == "--baselines") {
      o.baselines = value(i);
    } else if (word == "--cub") {
      o.cub = value(i);
    } else if (word == "--results") {
      o.results = value(i);
    } else if (word == "--small") {
      o.small = true;
    } else if (word == "--standin") {
      o.standin = true;
    } else if (word == "--brief") {
      o.small = o.brief = true;
    } else {
      give_up("unknown option " + word);
    }
  }
  return o;
}

Session::Session(const Options& options) {
  std::string error;
  driver_ = cuda::Driver::open({}, &error);
  if (driver_ == nullptr) give_up("no GPU to test on: " + error);
  if (driver_->device_count() == 0) give_up("no GPU to test on: the driver has no device");
  const auto& api = driver_->api();
  cuda::DeviceId device = 0;
  char name[128] = "";
  int major = 0;
  int minor = 0;
  driver_->call(api.DeviceGet, &device, 0);
  driver_->call(api.DeviceGetName, name, static_cast<int>(sizeof name), device);
  driver_->call(api.DeviceGetAttribute, &major, cuda::DeviceAttribute::kComputeCapabilityMajor, device);
  driver_->call(api.DeviceGetAttribute, &minor, cuda::DeviceAttribute::kComputeCapabilityMinor, device);
  name_ = name;
  capability_ = major * 10 + minor;
  if (driver_->call(api.DevicePrimaryCtxRetain, &context_, device) != Result::kSuccess ||
      driver_->call(api.CtxPushCurrent, context_) != Result::kSuccess ||
      driver_->call(api.StreamCreate, &stream_, cuda::kStreamNonBlocking) != Result::kSuccess) {
    give_up("the device gives no context or no stream");
  }
  if (options.image.empty()) return;  // only to look at the device
  std::ifstream file(options.image, std::ios::binary);
  image_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  if (image_.empty()) give_up("no kernels in " + options.image);
  device_ = device::CudaDevice::create({driver_, 0, image_.data()}, &error);
  if (device_ == nullptr) give_up(error);
}

Session::~Session() {
  device_.reset();
  const auto& api = driver_->api();
  cuda::ContextHandle popped = nullptr;
  driver_->call(api.StreamDestroy, stream_);
  driver_->call(api.CtxPopCurrent, &popped);
  driver_->call(api.DevicePrimaryCtxRelease, 0);
}

void Session::wait() {
  const Result r = driver_->call(driver_->api().StreamSynchronize, stream_);
  if (r != Result::kSuccess) give_up(std::string("the stream failed: ") + driver_->error_name(r));
}

Graph::Graph(Session& session, const std::function<bool()>& enqueue) : session_(session) {
  const auto& api = session.driver().api();
  const auto is_ok = [&](const char* what, Result r) {
    if (r != Result::kSuccess) problem_ = std::string(what) + ": " + session.driver().error_name(r);
    return r == Result::kSuccess;
  };
  cuda::StreamHandle s = session.handle();
  if (!is_ok("begin capture", session.driver().call(api.StreamBeginCapture, s, cuda::CaptureMode::kGlobal)))
    return;
  const bool enqueued = enqueue();
  if (!is_ok("end capture", session.driver().call(api.StreamEndCapture, s, &graph_))) return;
  if (!enqueued) problem_ = std::string("enqueue: ") + session.device().last_error();
  if (!problem_.empty()) return;
  is_ok("instantiate", session.driver().call(api.GraphInstantiateWithFlags, &exec_, graph_, 0ull));
}

Graph::~Graph() {
  const auto& api = session_.driver().api();
  if (exec_ != nullptr) session_.driver().call(api.GraphExecDestroy, exec_);
  if (graph_ != nullptr) session_.driver().call(api.GraphDestroy, graph_);
}

bool Graph::launch() {
  return session_.driver().call(session_.driver().api().GraphLaunch, exec_, session_.handle()) ==
         Result::kSuccess;
}

Buffer::Buffer(Session& session, std::size_t bytes, device::Memory kind)
    : session_(session), bytes_(bytes), kind_(kind), memory_(session.device().allocate(bytes, kind)) {
  if (memory_ == nullptr) give_up(session.device().last_error());
}

Buffer::~Buffer() {
  session_.device().release(memory_, kind_);
}

void Buffer::put(const void* from, std::size_t bytes, std::size_t offset) {
  if (session_.device().copy_in(session_.stream(), as<>() + offset, from, bytes) != device::Code::kOk) {
    give_up(session_.device().last_error());
  }
  session_.wait();
}

std::vector<unsigned char> Buffer::get(std::size_t bytes, std::size_t offset) const {
  std::vector<unsigned char> result(bytes);
  if (session_.device().copy_out(session_.stream(), result.data(), as<>() + offset, bytes) !=
      device::Code::kOk) {
    give_up(session_.device().last_error());
  }
  session_.wait();
  return result;
}

}  // namespace stepgate::gpu

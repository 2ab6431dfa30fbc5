#include "tests/plugin/cuda/cuda_world.h"

#include <thread>

#include "plugin/core/last_error.h"
#include "tests/test_seed.h"

namespace stepgate::test {

using namespace device::cuda;

namespace {

gate::GateOptions gate_options(int rank, const CudaWorldOptions& o) {
  gate::GateOptions g;
  g.rank = rank;
  g.world = o.ranks;
  g.params = o.params;
  g.policy = o.policy;
  g.policy.world = static_cast<std::uint32_t>(o.ranks);
  g.configuration.mode = gate::Mode::kEnforce;
  g.configuration.attribution = o.attribution;
  g.configuration.log = gate::LogLevel::kOff;
  g.configuration.activation_timeout_seconds = 60;
  return g;
}

standin::Options standin_options(const CudaWorldOptions& o) {
  standin::Options s;
  s.devices = o.ranks;
  s.guard = o.guard;
  s.max_delay_us = o.max_delay_us;
  s.seed = test_seed();
  return s;
}

std::shared_ptr<Driver> open_driver(const StandIn& standin) {
  std::string error;
  auto driver = standin.open(&error);
  EXPECT_NE(driver, nullptr) << error;
  return driver;
}

}  // namespace

CudaRank::CudaRank(const StandIn& standin, StreamNccl& nccl, int rank, const CudaWorldOptions& options)
    : standin_(standin), nccl_(nccl), rank_(rank), driver_(open_driver(standin)) {
  const auto& api = driver_->api();
  EXPECT_EQ(driver_->call(api.DevicePrimaryCtxRetain, &context_, rank), Result::kSuccess);
  EXPECT_EQ(driver_->call(api.CtxPushCurrent, context_), Result::kSuccess);
  device_ = standin.device(rank);
  stream_ = make_stream();
  side_ = make_stream();
  for (int i = 0; i < kBuffers; ++i) {
    buffers_.push_back(
        static_cast<float*>(device_->allocate(kElements * sizeof(float), device::Memory::kDevice)));
  }
  std::string error;
  gate_ = gate::Gate::create(gate_options(rank, options), *device_, StreamNccl::services(), &error);
  EXPECT_NE(gate_, nullptr) << error;
}

CudaRank::~CudaRank() {
  const auto& api = driver_->api();
  for (device::Stream s : {stream_, side_})
    driver_->call(api.StreamSynchronize, static_cast<StreamHandle>(s));
  for (const auto& [graph, exec] : graphs_) {
    EXPECT_EQ(driver_->call(api.GraphExecDestroy, exec), Result::kSuccess);
    EXPECT_EQ(driver_->call(api.GraphDestroy, graph), Result::kSuccess);
  }
  gate_.reset();
  for (float* b : buffers_) device_->release(b, device::Memory::kDevice);
  for (device::Stream s : {stream_, side_}) {
    EXPECT_EQ(driver_->call(api.StreamDestroy, static_cast<StreamHandle>(s)), Result::kSuccess);
  }
  device_.reset();
  ContextHandle popped = nullptr;
  driver_->call(api.CtxPopCurrent, &popped);
  driver_->call(api.DevicePrimaryCtxRelease, rank_);
}

device::Stream CudaRank::make_stream() {
  StreamHandle s = nullptr;
  EXPECT_EQ(driver_->call(driver_->api().StreamCreate, &s, kStreamNonBlocking), Result::kSuccess);
  return s;
}

void CudaRank::destroy_stream(device::Stream s) {
  sync(s);
  EXPECT_EQ(driver_->call(driver_->api().StreamDestroy, static_cast<StreamHandle>(s)), Result::kSuccess);
}

Outputs* CudaRank::outputs(std::uint32_t set) {
  const Outputs* out = nullptr;
  EXPECT_EQ(gate_->outputs(set, &out), STEPGATE_OK);
  return const_cast<Outputs*>(out);
}

std::uint32_t CudaRank::declare(const std::string& name, const std::vector<int>& buffers,
                                const std::function<void(gate::RangeSpec&)>& change) {
  gate::RangeSpec spec;
  spec.name = name;
  spec.counted = rank_ == 0;  // all ranks hold the same sum
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    spec.segments.push_back({buffer(buffers[i]), kElements});
    spec.parameters.push_back(name + "." + std::to_string(i));
  }
  if (change) change(spec);
  std::uint32_t id = 0;
  EXPECT_EQ(gate_->declare_range(std::move(spec), &id), STEPGATE_OK) << gate::last_error();
  return id;
}

stepgate_status CudaRank::activate(device::Stream s) {
  EXPECT_EQ(gate_->add_group(comm()), STEPGATE_OK) << gate::last_error();
  return gate_->enforce_begin(s);
}

void CudaRank::fill(int i, const std::vector<float>& head, float rest, device::Stream s) {
  std::vector<float> all(kElements, rest);
  std::copy(head.begin(), head.end(), all.begin());
  EXPECT_EQ(device_->copy_in(s, buffer(i), all.data(), all.size() * sizeof(float)), device::Code::kOk);
}

Reduction CudaRank::reduction(int i, device::Stream s) {
  return {OpKind::kAllReduce, ncclFloat32, ncclSum,       0,      buffer(i),
          buffer(i),          kElements,   nccl_.ranks(), comm(), static_cast<cudaStream_t>(s)};
}

ncclResult_t CudaRank::reduce(int i, device::Stream s) {
  const Reduction op = reduction(i, s);
  gate_->before(op);
  const ncclResult_t code = nccl_.all_reduce(rank_, op.send, op.recv, op.count, op.type, s);
  gate_->after(op, code == ncclSuccess      ? stepgate::Outcome::kLaunched
                   : code == ncclInProgress ? stepgate::Outcome::kPending
                                            : stepgate::Outcome::kDropped);
  return code;
}

CudaStep CudaRank::end_and_wait() {
  const stepgate_status ended = gate_->step_end(0, stream_);
  const std::string error = ended != STEPGATE_OK ? gate::last_error() : "";
  CudaStep s = wait();
  s.end = ended;
  if (!error.empty()) s.error = error;
  return s;
}

CudaStep CudaRank::wait() {
  CudaStep s;
  s.decision.skip = 1;
  s.status = gate_->step_wait(0, &s.decision);
  if (s.status != STEPGATE_OK) s.error = gate::last_error();
  return s;
}

std::vector<float> CudaRank::read(int i, device::Stream s) {
  std::vector<float> out(kElements);
  sync(s);
  EXPECT_EQ(device_->copy_out(s, out.data(), buffer(i), out.size() * sizeof(float)), device::Code::kOk);
  sync(s);
  return out;
}

Outputs CudaRank::read_outputs() {
  Outputs out;
  EXPECT_EQ(device_->copy_out(stream_, &out, outputs(), sizeof out), device::Code::kOk);
  sync(stream_);
  return out;
}

GraphExecHandle CudaRank::record(device::Stream s, const std::function<void()>& body) {
  const auto& api = driver_->api();
  GraphHandle graph = nullptr;
  GraphExecHandle exec = nullptr;
  const auto stream = static_cast<StreamHandle>(s);
  EXPECT_EQ(driver_->call(api.StreamBeginCapture, stream, CaptureMode::kThreadLocal), Result::kSuccess);
  body();
  EXPECT_EQ(driver_->call(api.StreamEndCapture, stream, &graph), Result::kSuccess);
  EXPECT_EQ(driver_->call(api.GraphInstantiateWithFlags, &exec, graph, 0ull), Result::kSuccess);
  graphs_.push_back({graph, exec});
  return exec;
}

void CudaRank::launch(GraphExecHandle exec, device::Stream s) {
  EXPECT_EQ(driver_->call(driver_->api().GraphLaunch, exec, static_cast<StreamHandle>(s)), Result::kSuccess);
}

CudaWorld::CudaWorld(const CudaWorldOptions& options)
    : options_(options), standin_(std::make_unique<StandIn>(standin_options(options))) {
  nccl_ = std::make_unique<StreamNccl>(options.ranks, open_driver(*standin_));
  ranks_.resize(static_cast<std::size_t>(options.ranks));
}

CudaWorld::~CudaWorld() = default;

std::shared_ptr<device::cuda::Driver> CudaWorld::driver() const {
  return open_driver(*standin_);
}

void CudaWorld::run(const std::function<void(CudaRank&)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(ranks_.size());
  for (int r = 0; r < options_.ranks; ++r) {
    threads.emplace_back([&, r] {
      auto& rank = ranks_[static_cast<std::size_t>(r)];
      rank = std::make_unique<CudaRank>(*standin_, *nccl_, r, options_);
      body(*rank);
      rank.reset();
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace stepgate::test

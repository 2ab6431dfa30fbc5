#include "tests/plugin/fake_world.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "tests/collectives/device/scan_oracle.h"

namespace stepgate::test {

struct FakeComm {
  FakeNccl* nccl;
  int rank;
};

namespace {

FakeComm& fake(ncclComm_t comm) {
  return *reinterpret_cast<FakeComm*>(comm);
}

thread_local int nccl_depth = 0;

void sum_doubles(const std::vector<const void*>& in, void* out, std::size_t count) {
  std::vector<double> sum(count);
  std::memcpy(sum.data(), in[0], count * sizeof(double));
  for (std::size_t k = 1; k < in.size(); ++k) {
    const auto* more = static_cast<const double*>(in[k]);
    for (std::size_t i = 0; i < count; ++i) sum[i] += more[i];
  }
  std::memcpy(out, sum.data(), count * sizeof(double));
}

ncclResult_t fake_all_reduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  EXPECT_EQ(type, ncclFloat64);
  EXPECT_EQ(op, ncclSum);
  EXPECT_EQ(FakeNccl::depth(), 1) << "the hooks must be told that this call is the plugin's own";
  return fake(comm).nccl->meet(
      FakeNccl::kExchange, fake(comm).rank, send, count * sizeof(double), recv,
      [count](const std::vector<const void*>& in, void* out) { sum_doubles(in, out, count); });
}

ncclResult_t fake_version(int* version) {
  *version = 22809;
  return ncclSuccess;
}
ncclResult_t fake_count(const ncclComm_t comm, int* count) {
  *count = fake(comm).nccl->ranks();
  return ncclSuccess;
}
ncclResult_t fake_user_rank(const ncclComm_t comm, int* rank) {
  *rank = fake(comm).rank;
  return ncclSuccess;
}
ncclResult_t fake_async_error(ncclComm_t, ncclResult_t* error) {
  *error = ncclSuccess;
  return ncclSuccess;
}
const char* fake_error_string(ncclResult_t) {
  return "made to fail";
}
const char* fake_last_error(ncclComm_t) {
  return "";
}

constexpr NcclTable kTable = {fake_version,    fake_count,        fake_user_rank, fake_async_error,
                              fake_all_reduce, fake_error_string, fake_last_error};

const NcclTable* table_of(ncclComm_t comm) {
  return comm != nullptr ? &kTable : nullptr;
}
void enter() {
  ++nccl_depth;
}
void leave() {
  --nccl_depth;
}

std::uint64_t chosen_seed(const WorldOptions& o) {
  if (o.quiet) return o.seed;
  return seeded("world", o.seed)();
}

gate::GateOptions gate_options(int rank, const WorldOptions& o) {
  gate::GateOptions g;
  g.rank = rank;
  g.world = o.ranks;
  g.params = o.params;
  g.policy = o.policy;
  g.policy.world = static_cast<std::uint32_t>(o.ranks);
  g.configuration.mode = o.mode;
  g.configuration.attribution = o.attribution;
  g.configuration.log = gate::LogLevel::kOff;
  g.configuration.activation_timeout_seconds = o.activation_seconds;
  g.configuration.plane = o.plane;
  return g;
}

}  // namespace

FakeNccl::FakeNccl(int ranks, std::uint64_t seed, std::chrono::seconds deadline)
    : ranks_(ranks), deadline_(deadline), random_(seed), calls_(static_cast<std::size_t>(ranks)) {
  for (int r = 0; r < ranks; ++r) comms_.push_back(std::make_unique<FakeComm>(FakeComm{this, r}));
}

FakeNccl::~FakeNccl() = default;

ncclComm_t FakeNccl::comm(int rank) {
  return reinterpret_cast<ncclComm_t>(comms_[static_cast<std::size_t>(rank)].get());
}

void FakeNccl::set_fate(int rank, int call, Fate fate) {
  const std::lock_guard lock(mutex_);
  fates_[{rank, call}] = fate;
}

int FakeNccl::exchanges(int rank) {
  const std::lock_guard lock(mutex_);
  return calls_[static_cast<std::size_t>(rank)][kExchange];
}

const void* FakeNccl::receiver(int rank) {
  const std::lock_guard lock(mutex_);
  return receivers_[rank];
}

int FakeNccl::depth() {
  return nccl_depth;
}

const ShimServices& FakeNccl::services() {
  static constexpr ShimServices kServices = {kCoreAbi, sizeof(ShimServices), table_of, enter, leave};
  return kServices;
}

Fate FakeNccl::fate_of(Place place, int rank, int call) const {
  const auto it = fates_.find({rank, call});
  return place == kExchange && it != fates_.end() ? it->second : Fate::kServed;
}

int FakeNccl::expected(Place place, int call) const {
  int n = 0;
  for (int r = 0; r < ranks_; ++r) n += fate_of(place, r, call) != Fate::kAbsent;
  return n;
}

std::vector<const void*> FakeNccl::shuffled(const Round& round) {
  std::vector<const void*> all;
  for (const auto& [rank, bytes] : round.sent) all.push_back(bytes.data());
  std::shuffle(all.begin(), all.end(), random_);
  return all;
}

ncclResult_t FakeNccl::meet(Place place, int rank, const void* send, std::size_t bytes, void* recv,
                            const Combine& combine) {
  std::unique_lock lock(mutex_);
  const int call = calls_[static_cast<std::size_t>(rank)][place]++;
  if (place == kExchange) receivers_[rank] = recv;
  const Fate fate = fate_of(place, rank, call);
  if (fate == Fate::kAbsent) return ncclRemoteError;
  Round& round = rounds_[{place, call}];
  const auto* begin = static_cast<const unsigned char*>(send);
  round.sent[rank].assign(begin, begin + bytes);
  ++round.arrived;
  changed_.notify_all();
  const bool all = changed_.wait_for(lock, deadline_, [&] { return round.arrived == expected(place, call); });
  EXPECT_TRUE(all) << "rank " << rank << " waited in vain in meeting " << call << " of place " << place;
  if (!all || fate == Fate::kSumLost) return ncclRemoteError;
  combine(shuffled(round), recv);
  return ncclSuccess;
}

Rank::Rank(FakeNccl& nccl, int rank, const WorldOptions& options) : nccl_(nccl), rank_(rank) {
  std::string error;
  gate_ = gate::Gate::create(gate_options(rank, options), device_, FakeNccl::services(), &error);
  EXPECT_NE(gate_, nullptr) << error;
}

std::uint32_t Rank::declare(const std::string& name, const std::vector<std::vector<float>*>& segments,
                            const std::function<void(gate::RangeSpec&)>& change) {
  gate::RangeSpec spec;
  spec.name = name;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    spec.segments.push_back({segments[i]->data(), segments[i]->size()});
    spec.parameters.push_back(name + "." + std::to_string(i));
  }
  if (change) change(spec);
  return declare(std::move(spec));
}

std::uint32_t Rank::declare(gate::RangeSpec spec) {
  std::uint32_t id = 0;
  EXPECT_EQ(gate_->declare_range(std::move(spec), &id), STEPGATE_OK) << gate::last_error();
  return id;
}

stepgate_status Rank::activate() {
  EXPECT_EQ(gate_->add_group(comm()), STEPGATE_OK) << gate::last_error();
  return gate_->enforce_begin(nullptr);
}

Step Rank::end(std::uint32_t set) {
  const stepgate_status ended = gate_->step_end(set, nullptr);
  const std::string error = ended != STEPGATE_OK ? gate::last_error() : "";
  Step s = wait(set);
  s.end = ended;
  if (!error.empty()) s.error = error;
  return s;
}

Step Rank::wait(std::uint32_t set) {
  Step s;
  s.decision.skip = 1;
  s.status = gate_->step_wait(set, &s.decision);
  if (s.status != STEPGATE_OK) s.error = gate::last_error();
  const Outputs* outputs = nullptr;
  EXPECT_EQ(gate_->outputs(set, &outputs), STEPGATE_OK);
  s.found_inf = outputs->found_inf;
  return s;
}

void Rank::all_reduce(ElementType type, const void* send, void* recv, std::size_t count) {
  const Reduction op{OpKind::kAllReduce, nccl_type(type), ncclSum, 0, send, recv, count,
                     nccl_.ranks(),      comm(),          nullptr};
  gate_->before(op);
  const auto combine = [type, count](const std::vector<const void*>& in, void* out) {
    Elements sum = unpack(type, static_cast<const unsigned char*>(in[0]), count);
    for (std::size_t k = 1; k < in.size(); ++k) {
      const Elements more = unpack(type, static_cast<const unsigned char*>(in[k]), count);
      for (std::size_t i = 0; i < count; ++i)
        sum[i] = encode(type, decode(type, sum[i]) + decode(type, more[i]));
    }
    const std::vector<unsigned char> bytes = pack(type, sum);
    std::memcpy(out, bytes.data(), count * element_size(type));
  };
  const ncclResult_t code =
      nccl_.meet(FakeNccl::kGradients, rank_, send, count * element_size(type), recv, combine);
  gate_->after(op, code == ncclSuccess ? stepgate::Outcome::kLaunched : stepgate::Outcome::kDropped);
}

World::World(const WorldOptions& options) : nccl_(options.ranks, chosen_seed(options), options.deadline) {
  for (int r = 0; r < options.ranks; ++r) ranks_.push_back(std::make_unique<Rank>(nccl_, r, options));
}

void World::run(const std::function<void(Rank&)>& body) {
  std::vector<std::thread> threads;
  for (auto& r : ranks_) threads.emplace_back([&body, &r] { body(*r); });
  for (std::thread& t : threads) t.join();
}

ncclDataType_t nccl_type(ElementType t) {
  switch (t) {
    case ElementType::kFp16: return ncclFloat16;
    case ElementType::kBf16: return ncclBfloat16;
    case ElementType::kFp64: return ncclFloat64;
    default: return ncclFloat32;
  }
}

}  // namespace stepgate::test

// N ranks as threads of one test, each with its own Gate over one fake NCCL that all of them share.
//
//   World world({.ranks = 4});
//   world.run([](Rank& r) {
//     const std::uint32_t id = r.declare("bucket", {&r.shard});
//     r.activate();
//     const Step step = r.step();             begin, end, wait
//     EXPECT_EQ(step.status, STEPGATE_OK);
//   });
//
// FakeNccl sums over the ranks, for each of them in an order of its own (the seed is printed), and can
// lose the answer of chosen calls. Every wait has a deadline: a missing rank is an error, never a hang.
// Thread: run() starts one per rank; a Rank belongs to its thread. Lock: FakeNccl's own mutex.
// Ownership: the World owns ranks, gates and devices; gates go before their devices.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "plugin/core/gate.h"
#include "plugin/core/last_error.h"
#include "tests/collectives/core/support.h"
#include "tests/plugin/faulty_device.h"

namespace stepgate::test {

// What happens to one rank in one exchange.
enum class Fate {
  kServed,
  kSumLost,  // its contribution counts, the sum never reaches it
  kAbsent    // it contributes nothing and gets an error; the others are served
};

struct FakeComm;  // what its ncclComm_t point to

class FakeNccl {
 public:
  FakeNccl(int ranks, std::uint64_t seed, std::chrono::seconds deadline);
  ~FakeNccl();
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;

  int ranks() const { return ranks_; }
  ncclComm_t comm(int rank);
  // call: counts every exchange of that rank, activation included, from 0.
  void set_fate(int rank, int call, Fate fate);
  int exchanges(int rank);
  // Where its newest exchange puts the sums, or would.
  const void* receiver(int rank);

  // One of the two meeting places; every rank passes each the same number of times.
  enum Place { kExchange, kGradients };
  using Combine = std::function<void(const std::vector<const void*>& in_random_order, void* out)>;
  ncclResult_t meet(Place place, int rank, const void* send, std::size_t bytes, void* recv,
                    const Combine& combine);

  static const ShimServices& services();
  // Depth of enter_nccl in the calling thread.
  static int depth();

 private:
  struct Round {
    std::map<int, std::vector<unsigned char>> sent;
    int arrived = 0;
  };
  Fate fate_of(Place place, int rank, int call) const;
  int expected(Place place, int call) const;
  std::vector<const void*> shuffled(const Round& round);

  const int ranks_;
  const std::chrono::seconds deadline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<FakeComm>> comms_;
  std::vector<std::array<int, 2>> calls_;
  std::map<int, const void*> receivers_;
  std::map<std::pair<int, int>, Fate> fates_;
  std::map<std::pair<int, int>, Round> rounds_;
};

struct WorldOptions {
  int ranks = 2;
  ScalerParams params = default_params(ScalerRule::kTorch);
  StepPolicy policy = {};
  gate::Attribution attribution = gate::Attribution::kAuto;
  gate::Mode mode = gate::Mode::kEnforce;
  std::uint64_t seed = 0;             // 0: a fresh one
  bool quiet = false;                 // many worlds in one test: the caller prints the seed
  std::chrono::seconds deadline{60};  // of the fake NCCL's own waits
  double activation_seconds = 100;
  bool plane = false;
};

// What one step came to, on one rank.
struct Step {
  stepgate_status end = STEPGATE_OK;     // of step_end
  stepgate_status status = STEPGATE_OK;  // of step_wait
  stepgate_decision decision{};
  float found_inf = -1;  // as an optimizer reads it
  std::string error;     // behind `end`, or else behind `status`

  bool applies() const { return status == STEPGATE_OK && decision.skip == 0; }
};

class Rank {
 public:
  Rank(FakeNccl& nccl, int rank, const WorldOptions& options);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  int rank() const { return rank_; }
  gate::Gate& gate() { return *gate_; }
  FaultyDevice& device() { return device_; }
  FakeNccl& nccl() { return nccl_; }
  ncclComm_t comm() { return nccl_.comm(rank_); }

  // fp32 segments, one parameter each, named NAME.0, NAME.1, ...
  std::uint32_t declare(const std::string& name, const std::vector<std::vector<float>*>& segments,
                        const std::function<void(gate::RangeSpec&)>& change = {});
  std::uint32_t declare(gate::RangeSpec spec);
  // add_group and enforce_begin.
  stepgate_status activate();

  void begin() { EXPECT_EQ(gate_->step_begin(nullptr), STEPGATE_OK) << gate::last_error(); }
  Step end(std::uint32_t set = 0);
  Step wait(std::uint32_t set = 0);
  Step step() {
    begin();
    return end();
  }

  // The job's own all-reduce, as the hooks see it: before, the call, after. `type` elements.
  void all_reduce(ElementType type, const void* send, void* recv, std::size_t count);
  // A call that reduces nothing has filled this.
  void moved(float* data, std::size_t count) {
    gate_->after({OpKind::kMovement, ncclFloat32, ncclSum, 0, nullptr, data, count, 0, comm(), nullptr},
                 stepgate::Outcome::kLaunched);
  }
  void all_reduce(std::vector<float>& data) {
    all_reduce(ElementType::kFp32, data.data(), data.data(), data.size());
  }

  std::vector<float> shard{1, 1};
  std::vector<float> input{1, 1, 1, 1};  // a send buffer that nobody declares

 private:
  FakeNccl& nccl_;
  const int rank_;
  FaultyDevice device_;
  std::unique_ptr<gate::Gate> gate_;
};

class World {
 public:
  explicit World(const WorldOptions& options);
  // One thread per rank; returns when all have ended.
  void run(const std::function<void(Rank&)>& body);
  Rank& rank(int r) { return *ranks_[static_cast<std::size_t>(r)]; }
  int size() const { return static_cast<int>(ranks_.size()); }
  FakeNccl& nccl() { return nccl_; }

 private:
  FakeNccl nccl_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

ncclDataType_t nccl_type(ElementType t);

}  // namespace stepgate::test

// A rank of a job that runs through the shim's hooks: a communicator of the host NCCL and a gate over it.
// A rank is a thread, and each thread has its own Job. The communicator goes with the Job.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"
#include "stepgate/stepgate.h"
#include "tests/plugin/whole_range.h"

namespace stepgate::test {

// Before anything opens the core, which reads the environment once.
inline const bool kEnvironmentSet = [] {
  setenv("STEPGATE_MODE", "enforce", 1);
  setenv("STEPGATE_METRICS", "off", 1);
  setenv("STEPGATE_RULE", "none", 1);
  setenv("STEPGATE_LOG", "off", 1);
  setenv("STEPGATE_HOSTNCCL_TIMEOUT", "60", 0);
  return true;
}();

inline ncclUniqueId fresh_id() {
  ncclUniqueId id{};
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess) << ncclGetLastError(nullptr);
  return id;
}

class Job {
 public:
  Job(int rank, int world, const ncclUniqueId& id) : rank_(rank), world_(world) {
    EXPECT_EQ(ncclCommInitRank(&comm_, world, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
    stepgate_gate_config config{};
    config.size = sizeof config;
    config.world = world;
    config.rank = rank;
    EXPECT_EQ(stepgate_gate_create(&config, &gate_), STEPGATE_OK) << stepgate_last_error();
    EXPECT_EQ(stepgate_add_group(gate_, comm_, 0), STEPGATE_OK) << stepgate_last_error();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    EXPECT_EQ(stepgate_gate_destroy(gate_), STEPGATE_OK);
    if (comm_ != nullptr) {
      EXPECT_EQ(ncclCommDestroy(comm_), ncclSuccess);
    }
  }

  int rank() const { return rank_; }
  int world() const { return world_; }
  ncclComm_t comm() const { return comm_; }
  stepgate_gate* gate() const { return gate_; }

  void declare(const char* name, std::vector<float>& data, bool counted = true) {
    const stepgate_segment segment{nullptr, data.data(), data.size()};
    const stepgate_range range = whole_range(name, segment, counted);
    std::uint32_t id = 0;
    EXPECT_EQ(stepgate_declare_range(gate_, &range, &id), STEPGATE_OK) << stepgate_last_error();
  }
  void activate() { EXPECT_EQ(stepgate_enforce_begin(gate_, nullptr), STEPGATE_OK) << stepgate_last_error(); }
  void begin() { EXPECT_EQ(stepgate_step_begin(gate_, nullptr), STEPGATE_OK) << stepgate_last_error(); }
  stepgate_decision end(stepgate_status want = STEPGATE_OK) { return end(want, want); }
  stepgate_decision end(stepgate_status want_end, stepgate_status want_wait) {
    EXPECT_EQ(stepgate_step_end(gate_, 0, nullptr), want_end) << stepgate_last_error();
    stepgate_decision d{};
    d.size = sizeof d;
    EXPECT_EQ(stepgate_step_wait(gate_, 0, &d), want_wait) << stepgate_last_error();
    return d;
  }
  void all_reduce(std::vector<float>& data, ncclResult_t want = ncclSuccess) {
    EXPECT_EQ(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm_, nullptr),
              want)
        << ncclGetLastError(comm_);
  }
  void destroy_comm() {
    EXPECT_EQ(ncclCommDestroy(comm_), ncclSuccess);
    comm_ = nullptr;
  }
  void adopt(ncclComm_t comm) { comm_ = comm; }

 private:
  const int rank_, world_;
  ncclComm_t comm_ = nullptr;
  stepgate_gate* gate_ = nullptr;
};

// The body on each rank of a new world, each on its own thread.
inline void run(int world, const std::function<void(Job&)>& body) {
  const ncclUniqueId id = fresh_id();
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(world));
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      Job job(rank, world, id);
      body(job);
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace stepgate::test

// What the gates of one process share: who observes, whose memory it is, and how the process ends.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <csignal>
#include <cstdlib>
#include <future>
#include <thread>

#include "plugin/core/api.h"
#include "plugin/core/process.h"
#include "tests/plugin/fake_world.h"
#include "tests/plugin/variables.h"

namespace stepgate::test {
namespace {

// One rank's process in mode enforce, through the table that the shim calls.
class ProcessShared : public testing::Test {
 protected:
  ProcessShared() {
    gate::fill_api(&api_);
    gate::set_api_process(&process_);
  }
  ~ProcessShared() override { process_.shut_down(); }

  stepgate_gate* gate_of(const char* name, const char* unscale = nullptr) {
    stepgate_gate_config config{};
    config.size = sizeof config;
    config.name = name;
    config.unscale = unscale;
    config.world = 1;
    stepgate_gate* gate = nullptr;
    EXPECT_EQ(api_.gate_create(&config, &gate), STEPGATE_OK) << gate::last_error();
    return gate;
  }
  stepgate_status enforce(stepgate_gate* gate) {
    EXPECT_EQ(api_.add_group(gate, nccl_.comm(0), 0), STEPGATE_OK) << gate::last_error();
    return api_.enforce_begin(gate, nullptr);
  }
  // Nobody answered.
  stepgate_status refuse(stepgate_gate* gate) {
    const double sums[STEPGATE_ACTIVATION_FIELDS] = {};
    return api_.enforce_decide(gate, nullptr, sums);
  }
  stepgate_status declare(stepgate_gate* gate, const float* data, std::size_t count, std::uint32_t* id) {
    const stepgate_segment segment{nullptr, const_cast<float*>(data), count};
    stepgate_range range{};
    range.size = sizeof range;
    range.name = "bucket";
    range.segments = &segment;
    range.segment_count = 1;
    range.compute_type = -1;
    return api_.declare_range(gate, &range, id);
  }

  FakeNccl nccl_{1, 1, std::chrono::seconds(60)};
  const gate::Variables variables_ = {{"STEPGATE_MODE", "enforce"},
                                      {"STEPGATE_DEVICE", "host"},
                                      {"STEPGATE_RULE", "none"},
                                      {"STEPGATE_LOG", "off"},
                                      {"STEPGATE_METRICS_PORT", "0"}};
  gate::Process process_{gate::environment(variables_), {}, FakeNccl::services()};
  CoreTable api_{};
};

TEST_F(ProcessShared, ObservesWhoeverHasNoAgreementWhileNoGateHasOne) {
  EXPECT_FALSE(process_.observing()) << "nobody has asked for an agreement yet";
  stepgate_gate* const a = gate_of("a");
  stepgate_gate* const b = gate_of("b");
  EXPECT_EQ(api_.enforce_end(a, nullptr), STEPGATE_INACTIVE);
  EXPECT_FALSE(process_.observing()) << "it was none to leave";
  ASSERT_EQ(enforce(a), STEPGATE_OK) << gate::last_error();
  EXPECT_EQ(refuse(b), STEPGATE_REFUSED);
  EXPECT_FALSE(process_.observing()) << "the other gate's gradients would be read twice";
  ASSERT_EQ(enforce(b), STEPGATE_OK) << gate::last_error();
  EXPECT_EQ(api_.enforce_end(a, nullptr), STEPGATE_OK) << gate::last_error();
  EXPECT_FALSE(process_.observing());
  EXPECT_EQ(api_.gate_destroy(b), STEPGATE_OK) << "without a goodbye";
  EXPECT_TRUE(process_.observing());
  EXPECT_EQ(api_.enforce_begin(a, nullptr), STEPGATE_OK) << gate::last_error();
  EXPECT_FALSE(process_.observing());
  EXPECT_EQ(api_.reset(a, 1), STEPGATE_OK);
  EXPECT_TRUE(process_.observing());
}

TEST_F(ProcessShared, AnActivationThatFailedObserves) {
  stepgate_gate* const gate = gate_of("a");
  EXPECT_EQ(api_.enforce_begin(gate, nullptr), STEPGATE_FAILED) << "it has no group";
  EXPECT_TRUE(process_.observing());
  EXPECT_EQ(api_.step_begin(gate, nullptr), STEPGATE_INACTIVE);
  EXPECT_EQ(enforce(gate), STEPGATE_OK) << gate::last_error();
  EXPECT_FALSE(process_.observing());
}

// A thread for each gate: what one comes to is not undone by what the other comes to a moment later.
TEST_F(ProcessShared, GatesAgreeAndAreRefusedAtOnce) {
  for (int i = 0; i < 200; ++i) {
    stepgate_gate* const a = gate_of("a");
    stepgate_gate* const b = gate_of("b");
    std::barrier together(2);
    std::thread refused([&] {
      together.arrive_and_wait();
      EXPECT_EQ(refuse(b), STEPGATE_REFUSED);
    });
    together.arrive_and_wait();
    EXPECT_EQ(enforce(a), STEPGATE_OK) << gate::last_error();
    refused.join();
    EXPECT_FALSE(process_.observing()) << "round " << i;
    EXPECT_EQ(api_.gate_destroy(a), STEPGATE_OK);
    EXPECT_TRUE(process_.observing()) << "round " << i;
    EXPECT_EQ(api_.gate_destroy(b), STEPGATE_OK);
  }
}

TEST_F(ProcessShared, OfTwoThreadsThatDeclareOneMemoryOneIsRefused) {
  stepgate_gate* const gates[2] = {gate_of("a", "in_hook"), gate_of("b", "in_hook")};
  std::vector<float> memory(8, 1.0f);
  for (int i = 0; i < 300; ++i) {
    std::barrier together(2);
    stepgate_status status[2] = {};
    std::uint32_t ids[2] = {};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        together.arrive_and_wait();
        status[t] = declare(gates[t], memory.data(), memory.size(), &ids[t]);
      });
    }
    for (std::thread& t : threads) t.join();
    ASSERT_NE(status[0] == STEPGATE_OK, status[1] == STEPGATE_OK) << "round " << i;
    const std::size_t owner = status[0] == STEPGATE_OK ? 0 : 1;
    EXPECT_EQ(status[1 - owner], STEPGATE_INVALID);
    const stepgate_status retired =
        i % 2 == 0 ? api_.retire_range(gates[owner], ids[owner]) : api_.retire_all(gates[owner]);
    ASSERT_EQ(retired, STEPGATE_OK) << gate::last_error();
  }
  std::uint32_t id = 0;
  EXPECT_EQ(declare(gates[0], memory.data(), 8, &id), STEPGATE_OK) << gate::last_error();
  EXPECT_EQ(declare(gates[1], memory.data(), 8, &id), STEPGATE_INVALID);
  EXPECT_EQ(api_.gate_destroy(gates[0]), STEPGATE_OK);
  EXPECT_EQ(declare(gates[1], memory.data(), 8, &id), STEPGATE_OK) << "it went with its gate";
}

// Memory whose first reader waits in the read until let_go(), as a launch waits for a full queue.
class SlowMemory {
 public:
  SlowMemory() {
    bytes_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    place_ = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(place_, MAP_FAILED);
    struct sigaction wait {};
    wait.sa_flags = SA_SIGINFO;
    wait.sa_sigaction = [](int, siginfo_t* info, void*) {
      if (info->si_addr < place_ || info->si_addr >= static_cast<char*>(place_) + bytes_) std::abort();
      read_ = true;
      while (!go_) usleep(1000);
      mprotect(place_, bytes_, PROT_READ | PROT_WRITE);
    };
    sigaction(SIGSEGV, &wait, &before_);
  }
  ~SlowMemory() {
    sigaction(SIGSEGV, &before_, nullptr);
    munmap(place_, bytes_);
    read_ = go_ = false;
  }
  SlowMemory(const SlowMemory&) = delete;
  SlowMemory& operator=(const SlowMemory&) = delete;

  float* data() { return static_cast<float*>(place_); }
  void wait_for_reader() {
    while (!read_) usleep(1000);
  }
  void let_go() { go_ = true; }

 private:
  static inline void* place_ = nullptr;
  static inline std::size_t bytes_ = 0;
  static inline std::atomic<bool> read_{false}, go_{false};
  struct sigaction before_ {};
};

// A hook holds its gate, and the list of gates, for as long as its launch waits. The exit does not.
TEST_F(ProcessShared, AnExitDoesNotWaitForAHookThatIsStuckInALaunch) {
  SlowMemory memory;
  stepgate_gate* const gate = gate_of("a");
  std::uint32_t id = 0;
  ASSERT_EQ(declare(gate, memory.data(), 16, &id), STEPGATE_OK) << gate::last_error();
  ASSERT_EQ(enforce(gate), STEPGATE_OK) << gate::last_error();
  ASSERT_EQ(api_.step_begin(gate, nullptr), STEPGATE_OK) << gate::last_error();
  const Reduction op{OpKind::kAllReduce, ncclFloat32, ncclSum, 0, memory.data(), memory.data(), 16, 1,
                     nccl_.comm(0),      nullptr};
  std::thread stuck([&] {
    process_.before(op);
    process_.after(op, stepgate::Outcome::kLaunched);
  });
  memory.wait_for_reader();
  auto exit = std::async(std::launch::async, [&] { process_.shut_down(); });
  EXPECT_EQ(exit.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  memory.let_go();
  stuck.join();
  exit.wait();
  EXPECT_EQ(api_.step_end(gate, 0, nullptr), STEPGATE_OK) << gate::last_error();
}

}  // namespace
}  // namespace stepgate::test

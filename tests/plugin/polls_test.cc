// The gate's own calls on a communicator that another thread of the job ends.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "plugin/core/nccl_calls.h"

namespace stepgate::gate {
namespace {

using namespace std::chrono_literals;

std::promise<void>* entered = nullptr;
std::shared_future<void> may_leave;
std::atomic<bool> has_left{false};

ncclResult_t held_all_reduce(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                             cudaStream_t) {
  entered->set_value();
  may_leave.wait();
  has_left = true;
  return ncclSuccess;
}

struct HeldCall {
  explicit HeldCall(std::chrono::milliseconds longest_wait) : polls(longest_wait) {
    entered = &inside;
    may_leave = let_go.get_future().share();
    has_left = false;
    table.AllReduce = held_all_reduce;
    services.enter_nccl = services.leave_nccl = [] {};
    caller = std::thread(
        [this] { code = sum_fields(services, table, comm, &field, &field, 1, nullptr, 60, polls); });
    inside.get_future().wait();
  }
  ~HeldCall() { caller.join(); }
  HeldCall(const HeldCall&) = delete;
  HeldCall& operator=(const HeldCall&) = delete;

  Polls polls;
  std::promise<void> inside, let_go;
  ncclComm_t comm = reinterpret_cast<ncclComm_t>(&polls);
  NcclTable table{};
  ShimServices services{};
  double field = 0;
  ncclResult_t code = ncclInternalError;
  std::thread caller;
};

// NCCL frees what is aborted: not while our all-reduce is in it.
TEST(Polls, AnEndWaitsForTheCallThatIsInside) {
  HeldCall held(100s);
  std::thread ends([&] {
    held.polls.retire(held.comm);
    EXPECT_TRUE(has_left) << "it would have been freed under the call";
  });
  while (!held.polls.retired(held.comm)) std::this_thread::yield();
  held.let_go.set_value();
  ends.join();
}

// One that waits for a dead rank comes back only by the abort.
TEST(Polls, AnEndDoesNotWaitForACallThatNeedsIt) {
  HeldCall held(5ms);
  held.polls.retire(held.comm);
  EXPECT_FALSE(has_left);
  held.let_go.set_value();
}

TEST(Polls, NoCallBeginsOnWhatHasEnded) {
  Polls polls;
  NcclTable table{};
  table.AllReduce = [](const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                       cudaStream_t) {
    ADD_FAILURE() << "called";
    return ncclSuccess;
  };
  ShimServices services{};
  services.enter_nccl = services.leave_nccl = [] {};
  double field = 0;
  const auto comm = reinterpret_cast<ncclComm_t>(&polls);
  polls.retire(comm);
  EXPECT_EQ(sum_fields(services, table, comm, &field, &field, 1, nullptr, 60, polls), ncclInternalError);
  polls.renew(comm);
  EXPECT_TRUE(polls.enter(comm));
  polls.leave(comm);
}

}  // namespace
}  // namespace stepgate::gate

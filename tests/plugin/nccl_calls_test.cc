// The plugin's own sums over several communicators in turn, some of which are lost on the way.
#include "plugin/core/nccl_calls.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace stepgate::gate {
namespace {

constexpr std::size_t kFields = 4;

struct Call {
  std::size_t link;
  const double* send;
  double* recv;
};

char link_names[3];
std::vector<Call> seen_calls;
std::function<ncclResult_t(std::size_t link)> answer;

ncclComm_t comm_of(std::size_t link) {
  return reinterpret_cast<ncclComm_t>(&link_names[link]);
}

ncclResult_t all_reduce(const void* send, void* recv, std::size_t count, ncclDataType_t, ncclRedOp_t,
                        ncclComm_t comm, cudaStream_t) {
  EXPECT_EQ(count, kFields);
  const auto link = static_cast<std::size_t>(reinterpret_cast<char*>(comm) - link_names);
  seen_calls.push_back({link, static_cast<const double*>(send), static_cast<double*>(recv)});
  return answer(link);
}

const ShimServices kServices = {kCoreAbi, sizeof(ShimServices), nullptr, [] {}, [] {}};

class SumOverChain : public testing::Test {
 protected:
  SumOverChain() {
    seen_calls.clear();
    answer = [](std::size_t) { return ncclSuccess; };
    chain_.count = 3;
    for (std::size_t i = 0; i < 3; ++i) chain_.links[i] = {comm_of(i), &table_};
  }
  bool sum() {
    why_.clear();
    return sum_over_chain(
        kServices, chain_, own_.data(), sums_.data(), nothing_.data(), kFields, nullptr, 10, polls_,
        [this] { return given_up_; }, &why_);
  }

  const NcclTable table_ = {nullptr, nullptr, nullptr, nullptr, all_reduce, nullptr, nullptr};
  Chain chain_;
  Polls polls_;
  std::array<double, kFields> own_{}, sums_{}, nothing_{};
  bool given_up_ = false;
  std::string why_;
};

TEST_F(SumOverChain, EachGroupAddsUpWhatTheOneBeforeCameTo) {
  EXPECT_TRUE(sum()) << why_;
  ASSERT_EQ(seen_calls.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(seen_calls[i].link, i);
    EXPECT_EQ(seen_calls[i].send, i == 0 ? own_.data() : sums_.data());
    EXPECT_EQ(seen_calls[i].recv, sums_.data());
  }
}

// The job destroys it in another thread while the first group's sum is under way: NCCL has freed it by then.
TEST_F(SumOverChain, OneThatIsRetiredInTheMiddleIsNotCalledAndTheNextOneIsStillServed) {
  answer = [this](std::size_t link) {
    if (link == 0) polls_.retire(comm_of(1));
    return ncclSuccess;
  };
  EXPECT_FALSE(sum());
  EXPECT_NE(why_.find("a communicator of the agreement has gone"), std::string::npos) << why_;
  ASSERT_EQ(seen_calls.size(), 2u);
  EXPECT_EQ(seen_calls[1].link, 2u) << "its ranks wait for this one";
  EXPECT_EQ(seen_calls[1].send, nothing_.data()) << "and are not to count a part for the whole";
}

// One that was called and is retired before it has answered: its own error is of no more use.
TEST_F(SumOverChain, OneThatIsRetiredWithinItsCallIsSaidToHaveGone) {
  answer = [this](std::size_t link) {
    if (link != 1) return ncclSuccess;
    polls_.retire(comm_of(1));
    return ncclInternalError;
  };
  EXPECT_FALSE(sum());
  EXPECT_NE(why_.find("has gone"), std::string::npos) << why_;
  ASSERT_EQ(seen_calls.size(), 3u);
  EXPECT_EQ(seen_calls[2].send, nothing_.data());
}

TEST_F(SumOverChain, TheFirstFailureIsTold) {
  answer = [](std::size_t link) { return link == 0 ? ncclSystemError : ncclInternalError; };
  EXPECT_FALSE(sum());
  EXPECT_NE(why_.find("returned " + std::to_string(ncclSystemError)), std::string::npos) << why_;
  ASSERT_EQ(seen_calls.size(), 3u);
}

TEST_F(SumOverChain, OnceGivenUpNothingMoreIsIssued) {
  answer = [this](std::size_t) {
    given_up_ = true;
    return ncclSuccess;
  };
  EXPECT_FALSE(sum());
  EXPECT_NE(why_.find("given up"), std::string::npos) << why_;
  EXPECT_EQ(seen_calls.size(), 1u);
}

}  // namespace
}  // namespace stepgate::gate

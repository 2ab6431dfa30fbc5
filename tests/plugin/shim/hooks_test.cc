// The hooks of the built libstepgate.so in front of the built host NCCL: this program is linked to both,
// the shim first, so that its NCCL calls go through the hooks as a preloaded job's do. Ranks are threads.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"
#include "collectives/nccl_abi/nccl_structs.h"
#include "stepgate/stepgate.h"
#include "tests/plugin/shim/hooks_job.h"
#include "tests/plugin/whole_range.h"

namespace stepgate::test {
namespace {

// Beyond NCCL's types, within what the enumeration can hold.
constexpr auto kNoType = static_cast<ncclDataType_t>(14);

// A bucket whose hook ran too early would be judged by what this rank put in, not by the sum.
TEST(Hooks, ReductionIsJudgedByItsResult) {
  for (const int world : {1, 2, 4}) {
    run(world, [](Job& j) {
      std::vector<float> bucket = {3, 4};
      j.declare("bucket", bucket, j.rank() == 0);
      j.activate();
      j.begin();
      j.all_reduce(bucket);
      bucket = {0, 0};  // judged at the reduction, not here
      EXPECT_EQ(j.end().norm, 5 * j.world());
    });
  }
}

TEST(Hooks, GroupIsReadOnlyAfterItsOutermostEnd) {
  run(2, [](Job& j) {
    std::vector<float> a = {1, 2}, b = {2, 4};
    j.declare("a", a, j.rank() == 0);
    j.declare("b", b, j.rank() == 0);
    j.activate();
    j.begin();
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    j.all_reduce(a);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    j.all_reduce(b);
    EXPECT_EQ(a[0], 1) << "nothing is launched yet";
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(a[0], 2);
    a = b = {0, 0};
    EXPECT_EQ(j.end().norm, 10) << "a: 2, 4; b: 4, 8";
    // And the queue is empty: the next group speaks of its own reductions only, so that b is read at the
    // step's end, as it then is.
    j.begin();
    a = {2, 2};
    b = {NAN, NAN};
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    j.all_reduce(a);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    b = {4, 4};
    EXPECT_EQ(j.end().norm, 8);
    // Outside of a group they are seen at once.
    j.begin();
    a = b = {1, 1};
    j.all_reduce(a);
    j.all_reduce(b);
    EXPECT_EQ(j.end().norm, 4);
  });
}

// On the host NCCL a group runs at its end; until then the job may still write what it sends.
TEST(Hooks, WhatAGroupSendsIsReadAtItsEnd) {
  run(2, [](Job& j) {
    std::vector<float> bucket = {NAN, 4};
    j.declare("bucket", bucket, j.rank() == 0);
    j.activate();
    j.begin();
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    j.all_reduce(bucket);
    bucket[0] = j.rank() == 1 ? INFINITY : 3.0f;
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    const stepgate_decision d = j.end();
    EXPECT_EQ(d.reason, STEPGATE_REASON_INF) << "nobody sent a NaN";
    EXPECT_EQ(d.offender, 1);
  });
}

// A NaN that a simulated group would have sent is nobody's.
TEST(Hooks, ASimulatedGroupDecidesNothing) {
  run(1, [](Job& j) {
    std::vector<float> sent = {NAN, NAN}, bucket = {3, 4};
    j.declare("bucket", bucket);
    j.activate();
    j.begin();
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(sent.data(), bucket.data(), 2, ncclFloat32, ncclSum, j.comm(), nullptr),
              ncclSuccess);
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    ASSERT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << ncclGetLastError(nullptr);
    EXPECT_EQ(j.end().norm, 5);
  });
}

TEST(Hooks, FailedGroupVetoesTheStep) {
  run(1, [](Job& j) {
    std::vector<float> bucket = {3, 4};
    j.declare("bucket", bucket);
    j.activate();
    j.begin();
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    j.all_reduce(bucket);
    EXPECT_NE(ncclAllReduce(bucket.data(), bucket.data(), 2, kNoType, ncclSum, j.comm(), nullptr),
              ncclSuccess);
    EXPECT_NE(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(j.end().reason, STEPGATE_REASON_VETO);
    j.begin();
    j.all_reduce(bucket);
    EXPECT_EQ(j.end().norm, 5) << "a failed group speaks of one step";
  });
}

TEST(Hooks, TheJobsOwnErrorsComeBackUnchanged) {
  run(1, [](Job& j) {
    std::vector<float> data = {1};
    EXPECT_EQ(ncclAllReduce(data.data(), data.data(), 1, kNoType, ncclSum, j.comm(), nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(nullptr, data.data(), 1, ncclFloat32, ncclSum, j.comm(), nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
    ncclResult_t state = ncclInternalError;
    EXPECT_EQ(ncclCommGetAsyncError(j.comm(), &state), ncclSuccess);
    EXPECT_EQ(state, ncclSuccess);
  });
}

TEST(Hooks, ReduceToARoot) {
  run(3, [](Job& j) {
    std::vector<float> send = {1, 2}, shard(2);
    j.declare("shard", shard);
    j.activate();
    j.begin();
    // Every rank is the root of its own shard, as ZeRO does it.
    for (int root = 0; root < j.world(); ++root) {
      float* const recv = root == j.rank() ? shard.data() : nullptr;
      std::vector<float> unused(2);
      ASSERT_EQ(ncclReduce(send.data(), recv != nullptr ? recv : unused.data(), 2, ncclFloat32, ncclSum, root,
                           j.comm(), nullptr),
                ncclSuccess)
          << ncclGetLastError(j.comm());
    }
    EXPECT_EQ(j.end().norm, std::sqrt(3 * (9.0 + 36.0)));
    j.begin();
    send[1] = j.rank() == 2 ? NAN : 1.0f;
    std::vector<float> unused(2);
    ASSERT_EQ(ncclReduce(send.data(), j.rank() == 0 ? shard.data() : unused.data(), 2, ncclFloat32, ncclSum,
                         0, j.comm(), nullptr),
              ncclSuccess);
    const stepgate_decision d = j.end();
    EXPECT_EQ(d.reason, STEPGATE_REASON_NAN) << "on the ranks that received nothing as well";
    EXPECT_NE(d.offender, STEPGATE_RANK_REDUCTION);
  });
}

TEST(Hooks, ReduceScatter) {
  run(4, [](Job& j) {
    std::vector<float> gradient(8, 1.0f), shard(2);
    j.declare("shard", shard);
    j.activate();
    const auto scatter = [&] {
      ASSERT_EQ(ncclReduceScatter(gradient.data(), shard.data(), 2, ncclFloat32, ncclSum, j.comm(), nullptr),
                ncclSuccess);
    };
    j.begin();
    scatter();
    shard = {0, 0};
    EXPECT_EQ(j.end().norm, std::sqrt(8 * 16.0));
    if (j.rank() == 3) gradient[0] = INFINITY;  // lands on rank 0
    j.begin();
    scatter();
    const stepgate_decision d = j.end();
    EXPECT_EQ(d.reason, STEPGATE_REASON_INF);
    EXPECT_EQ(d.offender, 3);
  });
}

// An all-gather over a reduced range writes it again, in every rank's block.
TEST(Hooks, AllGatherInvalidatesEveryBlock) {
  const ncclUniqueId second = fresh_id();
  run(2, [&](Job& j) {
    ncclComm_t gathering = nullptr;  // has never carried a reduction
    ASSERT_EQ(ncclCommInitRank(&gathering, 2, second, j.rank()), ncclSuccess);
    std::vector<float> all = {1, 1, 1, 1}, tail(2), mine = {1, j.rank() == 1 ? NAN : 1.0f};
    j.declare("tail", tail, false);
    j.declare("all", all, j.rank() == 0);
    j.activate();
    j.begin();
    j.all_reduce(all);
    ASSERT_EQ(ncclAllGather(mine.data(), all.data(), 2, ncclFloat32, gathering, nullptr), ncclSuccess);
    EXPECT_EQ(j.end().reason, STEPGATE_REASON_NAN);
    EXPECT_EQ(ncclCommDestroy(gathering), ncclSuccess);
  });
}

TEST(Hooks, AllGatherOverTheLaterBlockAlone) {
  const ncclUniqueId second = fresh_id();
  run(2, [&](Job& j) {
    ncclComm_t gathering = nullptr;
    ASSERT_EQ(ncclCommInitRank(&gathering, 2, second, j.rank()), ncclSuccess);
    std::vector<float> all = {1, 1, 1, 1}, mine = {1, j.rank() == 1 ? NAN : 1.0f};
    const stepgate_segment later{nullptr, all.data() + 2, 2};  // rank 1's block only
    const stepgate_range range = whole_range("later", later);
    std::uint32_t id = 0;
    ASSERT_EQ(stepgate_declare_range(j.gate(), &range, &id), STEPGATE_OK) << stepgate_last_error();
    j.activate();
    j.begin();
    j.all_reduce(all);
    ASSERT_EQ(ncclAllGather(mine.data(), all.data(), 2, ncclFloat32, gathering, nullptr), ncclSuccess);
    EXPECT_EQ(j.end().reason, STEPGATE_REASON_NAN);
    EXPECT_EQ(ncclCommDestroy(gathering), ncclSuccess);
  });
}

TEST(Hooks, BroadcastInvalidates) {
  for (const bool old_form : {false, true}) {
    run(2, [&](Job& j) {
      std::vector<float> bucket = {1, 1};
      j.declare("bucket", bucket, j.rank() == 0);
      j.activate();
      j.begin();
      j.all_reduce(bucket);
      if (j.rank() == 0) bucket = {3, 4};
      const ncclResult_t sent =
          old_form ? ncclBcast(bucket.data(), 2, ncclFloat32, 0, j.comm(), nullptr)
                   : ncclBroadcast(bucket.data(), bucket.data(), 2, ncclFloat32, 0, j.comm(), nullptr);
      ASSERT_EQ(sent, ncclSuccess);
      EXPECT_EQ(j.end().norm, 5);
    });
  }
}

// NCCL hands a destroyed communicator's pointer out again: nothing of the old one may be left.
TEST(Hooks, DestroyedCommunicatorIsForgotten) {
  run(1, [](Job& j) {
    j.activate();
    ncclComm_t old = j.comm();
    j.destroy_comm();
    j.begin();
    EXPECT_EQ(j.end(STEPGATE_UNDECIDED, STEPGATE_RELEASED).skip, 1) << "no sum will reach it any more";
    EXPECT_EQ(stepgate_remove_group(j.gate(), old), STEPGATE_INVALID) << "it left with ncclCommDestroy";
    ncclComm_t next = nullptr;
    ASSERT_EQ(ncclCommInitRank(&next, 1, fresh_id(), 0), ncclSuccess);
    j.adopt(next);
    EXPECT_EQ(stepgate_enforce_begin(j.gate(), nullptr), STEPGATE_FAILED) << "the new one was never added";
    ASSERT_EQ(stepgate_add_group(j.gate(), next, 0), STEPGATE_OK) << stepgate_last_error();
    j.activate();
    j.begin();
    EXPECT_EQ(j.end().skip, 0);
  });
}

TEST(Hooks, AbortedCommunicatorIsForgotten) {
  run(1, [](Job& j) {
    ncclComm_t aborted = j.comm();
    EXPECT_EQ(ncclCommAbort(aborted), ncclSuccess);
    j.adopt(nullptr);
    EXPECT_EQ(stepgate_remove_group(j.gate(), aborted), STEPGATE_INVALID);
    EXPECT_EQ(stepgate_add_group(j.gate(), aborted, 0), STEPGATE_INVALID);
  });
}

TEST(Hooks, ManyStepsOnFourRanksDecideAlike) {
  std::vector<std::vector<stepgate_decision>> all(4);
  run(4, [&](Job& j) {
    std::vector<float> a(100), b(33);
    j.declare("a", a, j.rank() == 0);
    j.declare("b", b, j.rank() == 0);
    j.activate();
    for (int step = 0; step < 60; ++step) {
      a.assign(a.size(), static_cast<float>(step + j.rank()));
      b.assign(b.size(), 1.0f);
      if (step % 4 == j.rank() && step % 3 == 0) b[32] = NAN;
      j.begin();
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      j.all_reduce(a);
      j.all_reduce(b);
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
      const stepgate_decision d = j.end();
      EXPECT_EQ(d.skip, step % 3 == 0);
      if (d.skip) {
        EXPECT_EQ(d.offender, step % 4);
      }
      all[static_cast<std::size_t>(j.rank())].push_back(d);
    }
  });
  for (std::size_t i = 0; i < all[0].size(); ++i) {
    for (const auto& rank : all) {
      ASSERT_EQ(rank.size(), all[0].size());
      EXPECT_TRUE(rank[i].skip == all[0][i].skip && (rank[i].skip || rank[i].norm == all[0][i].norm));
    }
  }
}

}  // namespace
}  // namespace stepgate::test

// What a gate remembers: history, offenders, records for the publisher, checkpoints.
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

constexpr int kMany = 1500;

TEST(GateHistory, RingOverrunIsReportedAsLost) {
  World world({.ranks = 1});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    for (int i = 0; i < kMany; ++i) ASSERT_TRUE(r.step().applies());
    std::vector<StepRecord> records(2000);
    std::uint64_t lost = 0;
    ASSERT_EQ(r.gate().read_steps(0, records.data(), records.size(), &lost), kRingRecords);
    EXPECT_EQ(lost, kMany - kRingRecords);
    for (std::size_t i = 0; i < kRingRecords; ++i) {
      ASSERT_EQ(records[i].sequence, kMany - kRingRecords + 1 + i);
      ASSERT_EQ(records[i].step, records[i].sequence);
    }
    EXPECT_EQ(r.gate().read_steps(kMany - 10, records.data(), 4, &lost), 4u);
    EXPECT_EQ(lost, 0u);
    EXPECT_EQ(records[0].sequence, static_cast<std::uint64_t>(kMany - 9));
    EXPECT_EQ(r.gate().read_steps(kMany, records.data(), 4, &lost), 0u);
    std::vector<stepgate_decision> decisions(2000);
    std::size_t count = decisions.size();
    ASSERT_EQ(r.gate().history(kMany - 3, decisions.data(), &count), STEPGATE_OK);
    ASSERT_EQ(count, 3u);
    EXPECT_EQ(decisions[0].step, static_cast<std::uint64_t>(kMany - 2));
    count = decisions.size();
    ASSERT_EQ(r.gate().history(0, decisions.data(), &count), STEPGATE_OK);
    EXPECT_EQ(count, kRingRecords);
  });
}

TEST(GateHistory, TellsEachStepAsItWasDecided) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    std::vector<Step> steps;
    for (int i = 0; i < 6; ++i) {
      r.shard[0] = i % 3 == 1 && r.rank() == 0 ? INFINITY : 2.0f;
      steps.push_back(r.step());
    }
    std::vector<stepgate_decision> list(10);
    std::size_t count = list.size();
    ASSERT_EQ(r.gate().history(0, list.data(), &count), STEPGATE_OK);
    ASSERT_EQ(count, 6u);
    for (std::size_t i = 0; i < count; ++i) {
      const stepgate_decision& want = steps[i].decision;
      EXPECT_EQ(list[i].size, sizeof(stepgate_decision));
      EXPECT_EQ(list[i].step, i + 1);
      EXPECT_EQ(list[i].skip, want.skip);
      EXPECT_EQ(list[i].reason, want.reason);
      EXPECT_EQ(list[i].scale, want.scale);
      EXPECT_EQ(list[i].next_scale, want.next_scale);
      EXPECT_EQ(bits(list[i].norm), bits(want.norm));
    }
  });
}

TEST(GateOffenders, LongNamesAreCutAndEndWithAZero) {
  World world({.ranks = 1});
  world.run([](Rank& r) {
    r.declare(std::string(200, 'n'), {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    r.shard[1] = NAN;
    r.begin();
    r.all_reduce(r.shard);
    ASSERT_EQ(r.end().decision.skip, 1);
    stepgate_offender one;
    std::size_t count = 1;
    ASSERT_EQ(r.gate().offenders(&one, &count), STEPGATE_OK);
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(std::string(one.range), std::string(63, 'n'));
    EXPECT_EQ(std::string(one.parameter), std::string(127, 'n'));
  });
}

TEST(GateOffenders, AtMost256OldestFirst) {
  World world({.ranks = 1});
  world.run([](Rank& r) {
    r.declare("bucket", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    for (int i = 1; i <= 300; ++i) {
      r.shard = {NAN, INFINITY};
      r.begin();
      r.all_reduce(r.shard);
      ASSERT_EQ(r.end().decision.skip, 1);
    }
    std::vector<stepgate_offender> list(1000);
    std::size_t count = list.size();
    ASSERT_EQ(r.gate().offenders(list.data(), &count), STEPGATE_OK);
    ASSERT_EQ(count, gate::kOffendersKept);
    EXPECT_EQ(list[0].step, 45u);
    EXPECT_EQ(list[255].step, 300u);
    EXPECT_EQ(list[0].nan, 1u);
    EXPECT_EQ(list[0].inf, 1u);
    EXPECT_STREQ(list[0].parameter, "bucket.0");
    count = 2;
    ASSERT_EQ(r.gate().offenders(list.data(), &count), STEPGATE_OK);
    EXPECT_EQ(count, 2u);
    EXPECT_EQ(list[1].step, 300u) << "the newest ones";
  });
}

// The publisher's half, called while the job's thread steps on.
TEST(GateRecords, ReaderBesideTheJobSeesOnlyWholeRecords) {
  World world({.ranks = 2});
  std::atomic<bool> done{false};
  std::thread reader([&] {
    std::vector<StepRecord> records(64);
    std::uint64_t last = 0;
    for (;;) {
      const bool finished = done;
      std::uint64_t lost = 0;
      metrics::RecordSource& source = world.rank(0).gate();
      const std::size_t n = source.read_steps(last, records.data(), records.size(), &lost);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_GT(records[i].sequence, last);
        last = records[i].sequence;
        ASSERT_EQ(records[i].step, last);
        ASSERT_EQ(records[i].decision.scale, 65536);
        ASSERT_EQ(records[i].rank, 0u);
      }
      std::vector<RangeRecord> ranges;
      source.read_ranges(&ranges);
      for (const RangeRecord& range : ranges) ASSERT_EQ(source.range_name(range.range), "shard");
      source.counters();
      source.identity();
      source.scaler_params();
      source.enforcing();
      if (finished && n == 0) break;
    }
    EXPECT_EQ(last, static_cast<std::uint64_t>(kMany));
  });
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    for (int i = 0; i < kMany; ++i) {
      r.begin();
      std::vector<float> send = r.shard;
      r.all_reduce(ElementType::kFp32, send.data(), r.shard.data(), r.shard.size());
      r.shard = send;
      ASSERT_TRUE(r.end().applies());
    }
  });
  done = true;
  reader.join();
}

TEST(GateRecords, IdentityAndState) {
  World world({.ranks = 3});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    EXPECT_EQ(r.gate().identity().nccl_version, "");
    EXPECT_FALSE(r.gate().ever_enforced());
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    const metrics::Identity id = r.gate().identity();
    EXPECT_EQ(id.rank, r.rank());
    EXPECT_EQ(id.world, 3);
    EXPECT_EQ(id.device, "host");
    EXPECT_EQ(id.rule, "torch");
    EXPECT_EQ(id.nccl_version, "2.28.9");
    EXPECT_EQ(id.version, "0.1.0");
    EXPECT_TRUE(r.step().applies());
    r.shard[0] = NAN;
    EXPECT_EQ(r.step().decision.skip, 1);
    stepgate_scaler_info info{};
    ASSERT_EQ(r.gate().state(&info), STEPGATE_OK);
    EXPECT_STREQ(info.rule, "torch");
    EXPECT_EQ(info.scale, 32768);
    EXPECT_EQ(info.steps, 2u);
    EXPECT_EQ(info.applied, 1u);
    EXPECT_EQ(info.skipped, 1u);
    EXPECT_EQ(info.last_decided, 2u);
    EXPECT_EQ(info.last_confirmed, 1u);
    EXPECT_EQ(info.enforcing, 1);
    EXPECT_EQ(info.released, 0);
  });
}

// ---- checkpoints

using Blob = std::vector<unsigned char>;

Blob save(Rank& r) {
  Blob blob(gate::state_blob_bytes());
  std::size_t bytes = blob.size();
  EXPECT_EQ(r.gate().state_save(blob.data(), &bytes), STEPGATE_OK) << gate::last_error();
  return blob;
}

std::vector<Step> steps(Rank& r, int from, int to) {
  std::vector<Step> all;
  for (int i = from; i < to; ++i) {
    r.shard[0] = i % 4 == r.rank() ? NAN : 1.0f;
    all.push_back(r.step());
    EXPECT_EQ(all.back().status, STEPGATE_OK) << all.back().error;
  }
  return all;
}

WorldOptions lively() {
  WorldOptions o{.ranks = 2};
  o.params = default_params(ScalerRule::kDeepspeed);
  o.params.interval = 3;
  return o;
}

TEST(GateState, SavedAndResumedIsTheSameTrajectory) {
  std::vector<std::vector<Step>> through(2), resumed(2);
  std::vector<Blob> blobs(2);
  World first(lively());
  first.run([&](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    steps(r, 0, 13);
    blobs[static_cast<std::size_t>(r.rank())] = save(r);
    through[static_cast<std::size_t>(r.rank())] = steps(r, 13, 40);
  });
  World second(lively());
  second.run([&](Rank& r) {
    const Blob& blob = blobs[static_cast<std::size_t>(r.rank())];
    ASSERT_EQ(r.gate().state_load(blob.data(), blob.size()), STEPGATE_OK) << gate::last_error();
    EXPECT_EQ(save(r), blob) << "loaded and saved again";
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    resumed[static_cast<std::size_t>(r.rank())] = steps(r, 13, 40);
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(through[rank].size(), resumed[rank].size());
    for (std::size_t i = 0; i < through[rank].size(); ++i) {
      const stepgate_decision &a = through[rank][i].decision, &b = resumed[rank][i].decision;
      EXPECT_TRUE(a.step == b.step && a.skip == b.skip && a.scale == b.scale && a.next_scale == b.next_scale)
          << "step " << a.step;
    }
  }
}

TEST(GateState, CheckpointOnSomeRanksOnlyIsRefusedAtActivation) {
  World world(lively());
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    steps(r, 0, 9);
    const Blob blob = save(r);
    ASSERT_EQ(r.gate().enforce_end(nullptr), STEPGATE_OK);
    if (r.rank() == 0) {
      ASSERT_EQ(r.gate().state_load(blob.data(), blob.size()), STEPGATE_OK);
      ASSERT_EQ(r.gate().set_scale(2), STEPGATE_OK);
    }
    EXPECT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_REFUSED);
  });
}

TEST(GateState, RefusedBlobsTouchNothing) {
  World world({.ranks = 1});
  world.run([](Rank& r) {
    const Blob before = save(r);
    Blob blob = before;
    for (std::size_t i = 0; i < blob.size(); ++i) {
      blob[i] ^= 0x10;
      EXPECT_EQ(r.gate().state_load(blob.data(), blob.size()), STEPGATE_INVALID) << i;
      EXPECT_EQ(r.gate().state_load(before.data(), i), STEPGATE_INVALID) << i;
      blob[i] ^= 0x10;
    }
    EXPECT_EQ(save(r), before);
  });
}

TEST(GateState, RestoredScaleAboveTheMaximumIsClamped) {
  WorldOptions o{.ranks = 1};
  o.params = default_params(ScalerRule::kStepgate);
  World world(o);
  world.run([](Rank& r) {
    gate::SavedState s;
    s.params = default_params(ScalerRule::kStepgate);
    s.scaler = initial_state(s.params);
    s.scaler.scale = 0x1p30;
    Blob blob(gate::state_blob_bytes());
    gate::write_state_blob(s, blob.data());
    ASSERT_EQ(r.gate().state_load(blob.data(), blob.size()), STEPGATE_OK);
    double scale = 0;
    ASSERT_EQ(r.gate().scale(&scale), STEPGATE_OK);
    EXPECT_EQ(scale, 0x1p24);
  });
}

TEST(GateState, ResetEndsTheAgreementAndKeepsTheScaler) {
  World world({.ranks = 2});
  world.run([](Rank& r) {
    r.declare("shard", {&r.shard});
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    r.shard[0] = NAN;
    r.step();
    r.shard[0] = 1;
    EXPECT_EQ(r.step().found_inf, 0.0f);
    r.begin();  // an elastic restart may come in the middle of a step
    ASSERT_EQ(r.gate().reset(9), STEPGATE_OK);
    EXPECT_FALSE(r.gate().enforcing());
    EXPECT_EQ(r.wait().found_inf, 1.0f);
    stepgate_scaler_info info{};
    ASSERT_EQ(r.gate().state(&info), STEPGATE_OK);
    EXPECT_EQ(info.generation, 9u);
    EXPECT_EQ(info.scale, 32768);
    ASSERT_EQ(r.gate().enforce_begin(nullptr), STEPGATE_OK) << gate::last_error();
    EXPECT_TRUE(r.step().applies());
  });
}

}  // namespace
}  // namespace stepgate::test

// stepgate_dump: what a gate tells of its last steps in a file, one JSON object per line.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/plugin/fake_world.h"

namespace stepgate::test {
namespace {

using Lines = std::map<std::string, std::vector<nlohmann::json>>;  // by kind

Lines dumped(Rank& r, const std::string& path) {
  EXPECT_EQ(r.gate().dump(path), STEPGATE_OK) << gate::last_error();
  Lines lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json j = nlohmann::json::parse(line, nullptr, false);
    EXPECT_TRUE(j.is_object()) << line;
    if (lines.empty()) {
      EXPECT_EQ(j.value("record", ""), "gate") << "comes first";
    }
    lines[j.value("record", "")].push_back(j);
  }
  return lines;
}

std::string flight_path(const char* name) {
  return testing::TempDir() + "flight." + std::to_string(::getpid()) + "." + name + ".jsonl";
}

TEST(GateFlight, TellsStepsRangesAndOffenders) {
  World world({.ranks = 2});
  std::vector<Lines> told(2);
  world.run([&](Rank& r) {
    std::vector<float> bucket(3, 1.0f);
    r.declare("bucket", {&bucket}, [&](gate::RangeSpec& s) { s.counted = r.rank() == 0; });
    ASSERT_EQ(r.activate(), STEPGATE_OK);
    for (const bool bad : {false, true}) {
      std::fill(bucket.begin(), bucket.end(), 1.0f);
      if (bad && r.rank() == 1) bucket[2] = NAN;
      r.begin();
      r.all_reduce(bucket);
      r.end();
    }
    const std::string path = flight_path(r.rank() == 0 ? "zero" : "one");
    told[static_cast<std::size_t>(r.rank())] = dumped(r, path);
    std::remove(path.c_str());
  });
  for (int rank = 0; rank < 2; ++rank) {
    Lines& lines = told[static_cast<std::size_t>(rank)];
    ASSERT_EQ(lines["gate"].size(), 1u);
    EXPECT_EQ(lines["gate"][0]["rank"], rank);
    EXPECT_EQ(lines["gate"][0]["world"], 2);
    EXPECT_EQ(lines["gate"][0]["rule"], "torch");
    EXPECT_EQ(lines["gate"][0]["steps_lost"], 0);
    ASSERT_EQ(lines["step"].size(), 2u);
    const nlohmann::json &good = lines["step"][0], &bad = lines["step"][1];
    EXPECT_EQ(good["step"], 1);
    EXPECT_EQ(good["skip"], false);
    EXPECT_EQ(good["norm"], std::sqrt(3 * 4.0) / 65536);
    EXPECT_EQ(bad["skip"], true);
    EXPECT_EQ(bad["reason"], "nan");
    EXPECT_EQ(bad["blamed"], 1);
    EXPECT_TRUE(bad["norm"].is_null());
    EXPECT_EQ(bad["next_scale"], 32768);
    EXPECT_EQ(bad["own_sent_nan"], rank);
    EXPECT_EQ(lines["range"].size(), 2u) << "local and reduced";
    EXPECT_EQ(lines["range"][0]["range"], "bucket");
    ASSERT_EQ(lines["offender"].size(), rank == 1 ? 1u : 0u);
    if (rank == 1) {
      EXPECT_EQ(lines["offender"][0]["parameter"], "bucket.0");
    }
  }
}

TEST(GateFlight, KeepsTheLastThousandStepsAndSaysWhyTheAgreementEnded) {
  World world({.ranks = 1});
  Rank& r = world.rank(0);
  r.declare("shard", {&r.shard});
  ASSERT_EQ(r.activate(), STEPGATE_OK);
  for (std::uint32_t i = 0; i < kRingRecords + 5; ++i) r.step();
  r.device().fail(FaultyDevice::kScan, 0);
  EXPECT_EQ(r.step().status, STEPGATE_RELEASED);
  const std::string path = flight_path("long");
  std::ofstream(path) << "what was there before\n";
  Lines lines = dumped(r, path);
  std::remove(path.c_str());
  ASSERT_EQ(lines["step"].size(), kRingRecords);
  EXPECT_EQ(lines["step"].front()["step"], 7);
  EXPECT_EQ(lines["step"].back()["step"], kRingRecords + 6);
  EXPECT_EQ(lines["step"].back()["released"], "degraded");
  EXPECT_EQ(lines["gate"][0]["steps_lost"], 0) << "older ones are not kept, which is no loss";
  EXPECT_EQ(lines["gate"][0]["released"]["degraded"], 1);
}

TEST(GateFlight, AFileThatCannotBeIsSaid) {
  World world({.ranks = 1});
  EXPECT_EQ(world.rank(0).gate().dump("no/such/folder/flight.jsonl"), STEPGATE_FAILED);
  EXPECT_NE(std::string(gate::last_error()).find("no/such/folder/flight.jsonl"), std::string::npos);
}

}  // namespace
}  // namespace stepgate::test

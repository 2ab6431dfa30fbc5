// `stepgate state show` on blobs that the product's own writer made, whole and spoilt.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "plugin/core/state_blob.h"
#include "tests/integration/process.h"
#include "tests/plugin/sample_state.h"

namespace stepgate::test {
namespace {

using nlohmann::json;

class StateShow : public testing::Test {
 protected:
  std::string blob(const gate::SavedState& state) const {
    std::string bytes(gate::state_blob_bytes(), '\0');
    gate::write_state_blob(state, bytes.data());
    return bytes;
  }
  std::string file(const std::string& bytes) const {
    std::ofstream(folder_.file("state"), std::ios::binary) << bytes;
    return folder_.file("state");
  }
  Outcome show(const std::string& path, const std::vector<std::string>& options = {}) const {
    std::vector<std::string> words = {command_path(), "state", "show"};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back(path);
    return run(words);
  }
  void expect_refused(const std::string& bytes, const std::string& why) const {
    for (const std::vector<std::string>& options : {std::vector<std::string>{}, {"--json"}}) {
      const Outcome o = show(file(bytes), options);
      EXPECT_EQ(o.status, 1) << o.out;
      EXPECT_EQ(o.out, "");
      EXPECT_NE(o.err.find("state blob refused: " + why), std::string::npos) << o.err;
      EXPECT_NE(o.err.find(folder_.file("state")), std::string::npos) << o.err;
    }
  }

  TemporaryFolder folder_;
};

TEST_F(StateShow, EverythingForPrograms) {
  const Outcome o = show(file(blob(gate::sample_state())), {"--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  const json all = json::parse(o.out);
  EXPECT_EQ(all.at("version"), gate::kStateVersion);
  EXPECT_EQ(all.at("rule"), "megatron");
  const ScalerParams p = default_params(ScalerRule::kMegatron);
  EXPECT_EQ(all.at("parameters"), (json{{"initial_scale", p.initial_scale},
                                        {"growth", p.growth},
                                        {"backoff", p.backoff},
                                        {"interval", p.interval},
                                        {"hysteresis", p.hysteresis},
                                        {"minimum", p.minimum}}));
  EXPECT_EQ(all.at("scale"), 0.1);
  EXPECT_EQ(all.at("trackers"),
            (json{{"growth_tracker", 77}, {"hysteresis_left", -3}, {"iteration", 0}, {"last_overflow", -1}}));
  EXPECT_EQ(all.at("counters"), (json{{"step", 1234},
                                      {"applied", 1200},
                                      {"skipped", 34},
                                      {"generation", 5},
                                      {"last_decided", 1233},
                                      {"last_confirmed", 1232}}));
}

TEST_F(StateShow, TableForPeople) {
  const Outcome o = show(file(blob(gate::sample_state())));
  ASSERT_EQ(o.status, 0) << o.err;
  for (const char* row : {"  rule             megatron\n", "  scale            0.1\n",
                          "  growth tracker   77\n", "  hysteresis left  -3\n", "  minimum          1\n",
                          "  step             1234\n", "  last confirmed   1232\n"}) {
    EXPECT_NE(o.out.find(row), std::string::npos) << row << o.out;
  }
  EXPECT_EQ(o.out.find("maximum"), std::string::npos) << "megatron has none: " << o.out;
}

TEST_F(StateShow, OnlyWhatTheRuleHas) {
  gate::SavedState s;
  s.params = default_params(ScalerRule::kStatic);
  s.scaler = initial_state(s.params);
  const json all = json::parse(show(file(blob(s)), {"--json"}).out);
  EXPECT_EQ(all.at("parameters"), (json{{"initial_scale", s.params.initial_scale}}));
}

TEST_F(StateShow, TruncatedIsRefusedAtEveryLength) {
  const std::string whole = blob(gate::sample_state());
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{16}, whole.size() - 1}) {
    expect_refused(whole.substr(0, bytes), "truncated");
  }
  expect_refused(whole + "x", "truncated or padded");
}

TEST_F(StateShow, ForeignIsRefused) {
  expect_refused(std::string(200, 'x'), "foreign");
  expect_refused(std::string(2 << 20, 'x'), "foreign");
}

// What a job saves is mostly more than the blob.
TEST_F(StateShow, InsideOfACheckpointItIsFound) {
  const std::string whole = blob(gate::sample_state());
  const std::string path = file("weights" + whole + "more");
  const Outcome o = show(path);
  EXPECT_EQ(o.status, 1);
  const std::string cut = "tail -c +8 '" + path + "' | head -c " + std::to_string(whole.size());
  EXPECT_NE(o.err.find("foreign"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("one may begin at its byte 7: " + cut + " > state"), std::string::npos) << o.err;
  EXPECT_EQ(run({"sh", "-c", cut}).out, whole);
}

// Weights of any size lie before it, and the word may lie across two pieces of what is read.
TEST_F(StateShow, InsideOfALargeCheckpointItIsFoundToo) {
  const std::string whole = blob(gate::sample_state());
  for (const std::size_t before :
       {std::size_t{5} << 20, (std::size_t{2} << 20) - 3, (std::size_t{1} << 20) - 7}) {
    const std::string path = file(std::string(before, 'w') + whole);
    const Outcome o = show(path);
    EXPECT_NE(o.err.find("one may begin at its byte " + std::to_string(before) + ":"), std::string::npos)
        << o.err;
  }
}

TEST_F(StateShow, DamagedIsRefused) {
  std::string bytes = blob(gate::sample_state());
  bytes[40] = static_cast<char>(bytes[40] ^ 1);
  expect_refused(bytes, "damaged");
}

TEST_F(StateShow, NewerIsRefusedAndSaysWhatWouldHelp) {
  std::string bytes = blob(gate::sample_state());
  const std::uint32_t newer = gate::kStateVersion + 1;
  std::memcpy(bytes.data() + 8, &newer, sizeof newer);
  expect_refused(bytes, "version " + std::to_string(newer));
  EXPECT_NE(show(file(bytes)).err.find("a newer StepGate wrote it"), std::string::npos);
}

TEST_F(StateShow, FileThatCannotBeReadIsNamed) {
  const std::string missing = folder_.file("missing");
  for (const std::string& path : {missing, folder_.file("")}) {
    const Outcome o = show(path);
    EXPECT_EQ(o.status, 1) << path;
    EXPECT_NE(o.err.find("cannot read " + path), std::string::npos) << o.err;
  }
}

TEST_F(StateShow, WrongWordsAreRefused) {
  const std::vector<std::vector<std::string>> wrong = {
      {}, {"list"}, {"show"}, {"show", "a", "b"}, {"show", "--jason", "a"}, {"show", "--json=1", "a"}};
  for (const std::vector<std::string>& words : wrong) {
    std::vector<std::string> all = {command_path(), "state"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome o = run(all);
    EXPECT_EQ(o.status, 2) << o.out << o.err;
    EXPECT_NE(o.err, "");
  }
  EXPECT_EQ(run({command_path(), "state", "--help"}).status, 0);
  EXPECT_EQ(run({command_path(), "state", "show", "--help"}).status, 0);
}

}  // namespace
}  // namespace stepgate::test

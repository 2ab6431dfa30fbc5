// The serialised state: what goes in comes out, and nothing else is believed.
#include "plugin/core/state_blob.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/plugin/sample_state.h"

namespace stepgate::gate {
namespace {

std::vector<unsigned char> blob_of(const SavedState& s) {
  std::vector<unsigned char> blob(state_blob_bytes());
  write_state_blob(s, blob.data());
  return blob;
}

bool equal(const SavedState& a, const SavedState& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// The reason; the output must stay as it was.
std::string refusal(const void* blob, std::size_t bytes) {
  const SavedState before = sample_state();
  SavedState out = before;
  std::string error;
  EXPECT_FALSE(read_state_blob(blob, bytes, &out, &error));
  EXPECT_TRUE(equal(out, before)) << "a refused blob touched the state";
  EXPECT_NE(error.find("refused"), std::string::npos) << error;
  return error;
}

TEST(StateBlob, RoundTrip) {
  const SavedState want = sample_state();
  const auto blob = blob_of(want);
  SavedState got;
  std::string error;
  ASSERT_TRUE(read_state_blob(blob.data(), blob.size(), &got, &error)) << error;
  EXPECT_TRUE(equal(got, want));
  EXPECT_EQ(std::memcmp(blob.data(), "STEPGATE", 8), 0);
}

TEST(StateBlob, SameStateSameBytes) {
  EXPECT_EQ(blob_of(sample_state()), blob_of(sample_state()));
}

TEST(StateBlob, TruncatedAtEveryLengthIsRefused) {
  const auto blob = blob_of(sample_state());
  for (std::size_t bytes = 0; bytes < blob.size(); ++bytes) {
    // A buffer of exactly that size, so that a sanitizer sees a read beyond it.
    const std::vector<unsigned char> shorter(blob.begin(), blob.begin() + static_cast<std::ptrdiff_t>(bytes));
    const std::string why = refusal(shorter.data(), shorter.size());
    EXPECT_NE(why.find("truncated"), std::string::npos) << bytes << ": " << why;
  }
}

TEST(StateBlob, LongerIsRefused) {
  auto blob = blob_of(sample_state());
  blob.push_back(0);
  EXPECT_NE(refusal(blob.data(), blob.size()).find("padded"), std::string::npos);
}

TEST(StateBlob, EveryFlippedBitIsRefused) {
  auto blob = blob_of(sample_state());
  for (std::size_t bit = 0; bit < 8 * blob.size(); ++bit) {
    blob[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    SCOPED_TRACE("bit " + std::to_string(bit));
    refusal(blob.data(), blob.size());
    blob[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
  }
  SavedState got;
  std::string error;
  EXPECT_TRUE(read_state_blob(blob.data(), blob.size(), &got, &error)) << "the test itself broke the blob";
}

TEST(StateBlob, ForeignAndNewerSaySo) {
  std::vector<unsigned char> foreign(state_blob_bytes(), 'x');
  EXPECT_NE(refusal(foreign.data(), foreign.size()).find("foreign"), std::string::npos);
  auto newer = blob_of(sample_state());
  newer[8] = kStateVersion + 1;
  const std::string why = refusal(newer.data(), newer.size());
  EXPECT_NE(why.find("version 2"), std::string::npos) << why;
  EXPECT_NE(why.find("reads version 1"), std::string::npos) << why;
}

// A checksum that is right proves nothing about the writer's sanity.
TEST(StateBlob, ImpossibleValuesAreRefusedInSpiteOfTheChecksum) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const double scale : {nan, inf, -1.0}) {
    SavedState s = sample_state();
    s.scaler.scale = scale;
    const auto blob = blob_of(s);
    refusal(blob.data(), blob.size());
  }
  SavedState rule = sample_state();
  rule.params.rule = static_cast<ScalerRule>(kScalerRuleCount);
  refusal(blob_of(rule).data(), state_blob_bytes());
  SavedState growth = sample_state();
  growth.params.growth = 0.5;
  refusal(blob_of(growth).data(), state_blob_bytes());
}

}  // namespace
}  // namespace stepgate::gate

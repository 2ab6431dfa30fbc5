// Who is in a communicator's child, and what is registered on one: the rules alone.
#include "collectives/hostnccl/children.h"

#include <gtest/gtest.h>

#include "collectives/hostnccl/registrations.h"

namespace stepgate::hostnccl {
namespace {

using Ranks = std::vector<int>;

struct Colors {
  const char* what;
  Ranks colors_and_keys;
  int color;
  Ranks members;
};

TEST(Children, RanksOfAColorByKeyThenByRank) {
  const Colors table[] = {
      {"one color, keys as ranks", {0, 0, 0, 1, 0, 2}, 0, {0, 1, 2}},
      {"keys turned round", {0, 2, 0, 1, 0, 0}, 0, {2, 1, 0}},
      {"equal keys", {3, 9, 3, 9, 3, 9}, 3, {0, 1, 2}},
      {"negative keys", {0, -1, 0, -5, 0, 0}, 0, {1, 0, 2}},
      {"two colors", {1, 0, 2, 0, 1, -1, 2, 5}, 1, {2, 0}},
      {"the other one", {1, 0, 2, 0, 1, -1, 2, 5}, 2, {1, 3}},
      {"without color", {NCCL_SPLIT_NOCOLOR, 0, 4, 0}, 4, {1}},
      {"extreme keys", {0, 2147483647, 0, -2147483647 - 1}, 0, {1, 0}},
  };
  for (const Colors& row : table)
    EXPECT_EQ(ranks_of_color(row.colors_and_keys, row.color), row.members) << row.what;
}

struct Left {
  Ranks excluded;
  int rank;
  int size;
  const char* refused;  // NULL: not
  Ranks left;
};

TEST(Children, RanksThatAShrinkLeaves) {
  const Left table[] = {
      {{1}, 0, 3, nullptr, {0, 2}},       {{2, 0}, 1, 4, nullptr, {1, 3}},
      {{1, 2, 3}, 0, 4, nullptr, {0}},    {{}, 0, 2, "is empty", {}},
      {{2}, 0, 2, "names rank 2", {}},    {{-1}, 0, 2, "names rank -1", {}},
      {{1, 1}, 0, 3, "a rank twice", {}}, {{1}, 1, 3, "names this rank, 1", {}},
  };
  for (const Left& row : table) {
    Ranks left;
    const Outcome outcome = ranks_left(row.excluded, row.rank, row.size, &left);
    EXPECT_EQ(outcome.code, row.refused == nullptr ? ncclSuccess : ncclInvalidArgument) << outcome.message;
    EXPECT_EQ(left, row.left);
    if (row.refused != nullptr) {
      EXPECT_NE(outcome.message.find(row.refused), std::string::npos) << outcome.message;
    }
  }
}

TEST(RegistrationsOfOne, SharePagesAndCount) {
  Registrations registrations;
  auto* const base = reinterpret_cast<char*>(0x10000);
  void* const whole = registrations.add(base, 3 * 4096);
  EXPECT_EQ(registrations.add(base + 4096, 1), whole) << "within";
  EXPECT_NE(registrations.add(base + 2 * 4096, 2 * 4096), whole) << "reaches beyond";
  EXPECT_EQ(registrations.held(), 2u);
  EXPECT_TRUE(registrations.remove(whole).ok());
  EXPECT_EQ(registrations.held(), 2u) << "one reference is left";
  EXPECT_TRUE(registrations.remove(whole).ok());
  EXPECT_EQ(registrations.held(), 1u);
  EXPECT_EQ(registrations.remove(whole).code, ncclInvalidUsage);
  EXPECT_NE(registrations.add(base, 1), whole) << "handles are not used twice";
}

// A job that registers its buffers for every step: what was deregistered is gone, or each call would look
// through all that came before it.
TEST(RegistrationsOfOne, LeaveNothingBehind) {
  Registrations registrations;
  auto* const base = reinterpret_cast<char*>(0x10000);
  void* last = nullptr;
  for (int step = 0; step < 200'000; ++step) {
    last = registrations.add(base, 4096);
    ASSERT_TRUE(registrations.remove(last).ok());
  }
  EXPECT_EQ(registrations.held(), 0u);
  EXPECT_EQ(registrations.remove(last).code, ncclInvalidUsage);
}

}  // namespace
}  // namespace stepgate::hostnccl

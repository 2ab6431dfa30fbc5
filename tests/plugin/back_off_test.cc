#include "plugin/core/observe/back_off.h"

#include <gtest/gtest.h>

#include <vector>

namespace stepgate::gate {
namespace {

TEST(BackOff, LooksAtTheFirstThenEverMoreRarelyButNeverGivesUp) {
  BackOff b;
  std::vector<int> looks;
  for (int i = 1; i <= 5200; ++i) {
    if (b.look()) looks.push_back(i);
  }
  EXPECT_EQ(looks, (std::vector<int>{1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 2047 + 1024, 2047 + 2048,
                                     2047 + 3072}));
}

}  // namespace
}  // namespace stepgate::gate

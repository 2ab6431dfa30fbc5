// Memory that a gate multiplies is declared in that gate alone.
#include "plugin/core/claims.h"

#include <gtest/gtest.h>

namespace stepgate::gate {
namespace {

float claimed[100];
int gates[3];

RangeSpec range_at(std::size_t begin, std::size_t end) {
  RangeSpec spec;
  spec.name = "r";
  spec.segments = {{claimed + begin, end - begin}};
  return spec;
}

Claims::Owner gate(int i, bool multiplies) {
  return {&gates[i], "g" + std::to_string(i), multiplies};
}

bool takes(Claims& claims, const Claims::Owner& owner, const RangeSpec& spec, std::uint32_t id = 0) {
  std::string why;
  const Claims::Ticket ticket = claims.take(owner, spec, &why);
  EXPECT_EQ(ticket == 0, !why.empty());
  if (ticket != 0) claims.bind(ticket, id);
  return ticket != 0;
}

TEST(Claims, MemoryThatIsMultipliedHasOneGate) {
  Claims claims;
  EXPECT_TRUE(takes(claims, gate(0, true), range_at(10, 20)));
  EXPECT_FALSE(takes(claims, gate(1, false), range_at(19, 30)));
  EXPECT_FALSE(takes(claims, gate(1, true), range_at(0, 11)));
  EXPECT_TRUE(takes(claims, gate(1, false), range_at(20, 30))) << "side by side";
  EXPECT_TRUE(takes(claims, gate(1, false), range_at(0, 10)));
  EXPECT_TRUE(takes(claims, gate(2, false), range_at(25, 40))) << "neither of the two multiplies";
  EXPECT_FALSE(takes(claims, gate(0, true), range_at(39, 50))) << "whichever came first";
  EXPECT_TRUE(takes(claims, gate(0, true), range_at(12, 14))) << "its own is the gate's to refuse";
}

TEST(Claims, EverySegmentCounts) {
  Claims claims;
  RangeSpec spread = range_at(50, 52);
  spread.segments.push_back({claimed + 10, 2});
  spread.segments.push_back({claimed + 90, 0});
  spread.segments.push_back({claimed + 70, 2});
  EXPECT_TRUE(takes(claims, gate(0, true), spread));
  EXPECT_TRUE(takes(claims, gate(1, true), range_at(90, 100))) << "nothing is there";
  for (const std::size_t hit : {10u, 51u, 71u}) {
    EXPECT_FALSE(takes(claims, gate(1, true), range_at(hit, hit + 1))) << hit;
  }
  RangeSpec between = range_at(12, 50);
  between.segments.push_back({claimed + 0, 10});
  between.segments.push_back({claimed + 52, 18});
  EXPECT_TRUE(takes(claims, gate(1, true), between));
}

TEST(Claims, GoWithTheirRangesAndGates) {
  Claims claims;
  std::string why;
  claims.drop(claims.take(gate(0, true), range_at(0, 10), &why));
  EXPECT_TRUE(takes(claims, gate(1, true), range_at(0, 10), 4));
  EXPECT_TRUE(takes(claims, gate(1, true), range_at(10, 20), 5));
  ASSERT_EQ(claims.held(&gates[1], 4).size(), 1u);
  EXPECT_EQ(claims.held(&gates[1]).size(), 2u);
  EXPECT_TRUE(claims.held(&gates[0], 4).empty());
  claims.drop(claims.held(&gates[1], 4).at(0));
  EXPECT_TRUE(takes(claims, gate(0, true), range_at(0, 10)));
  EXPECT_FALSE(takes(claims, gate(0, true), range_at(10, 20)));
  claims.drop_all_of(&gates[1]);
  EXPECT_TRUE(takes(claims, gate(0, true), range_at(10, 20)));
}

}  // namespace
}  // namespace stepgate::gate

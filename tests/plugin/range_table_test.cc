// RangeTable against its contract, and against a brute-force table over random declarations.
#include "plugin/core/range_table.h"

#include <array>
#include <map>

#include "tests/collectives/core/support.h"

namespace stepgate::gate {
namespace {

using test::below;
using test::chance;

// Addresses alone matter: nothing is ever read.
const void* at(std::uint64_t address) {
  return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(address));
}

RangeSpec spec(const std::string& name, std::vector<device::Segment> segments, bool result = true) {
  RangeSpec s;
  s.name = name;
  s.segments = std::move(segments);
  s.parameters.resize(s.segments.size());
  s.result = result;
  return s;
}

std::uint32_t declared(RangeTable& table, RangeSpec s) {
  std::uint32_t id = 99;
  std::string error;
  EXPECT_TRUE(table.declare(std::move(s), &id, &error)) << error;
  return id;
}

std::string refused(RangeTable& table, RangeSpec s) {
  std::uint32_t id = 99;
  std::string error;
  EXPECT_FALSE(table.declare(std::move(s), &id, &error));
  EXPECT_EQ(id, 99u) << "a refused declaration touches nothing";
  return error;
}

std::map<std::uint32_t, bool> touched(RangeTable& table, std::uint64_t begin, std::uint64_t bytes,
                                      bool result = true) {
  std::vector<RangeTable::Hit> hits;
  table.touching(at(begin), bytes, result, &hits);
  std::map<std::uint32_t, bool> found;
  for (std::size_t i = 0; i < hits.size(); ++i) {
    if (i > 0) {
      EXPECT_LT(hits[i - 1].id, hits[i].id);
    }
    found[hits[i].id] = hits[i].inside;
  }
  return found;
}

using Touched = std::map<std::uint32_t, bool>;

TEST(RangeTable, DeclareFindRetire) {
  RangeTable table(4);
  const std::uint32_t a = declared(table, spec("a", {{at(1000), 10}}));
  ASSERT_NE(table.find(a), nullptr);
  EXPECT_EQ(table.find(a)->spec.name, "a");
  EXPECT_TRUE(table.retire(a));
  EXPECT_EQ(table.find(a), nullptr);
  EXPECT_FALSE(table.retire(a)) << "twice";
  EXPECT_FALSE(table.retire(77));
  EXPECT_TRUE(touched(table, 0, 5000).empty()) << "a retired range is nowhere";
}

TEST(RangeTable, OverlapOfTwoResultsIsRefusedByName) {
  RangeTable table(4);
  declared(table, spec("first", {{at(1000), 10}}));  // fp32: up to 1040
  const std::string error = refused(table, spec("second", {{at(2000), 4}, {at(1036), 4}}));
  EXPECT_NE(error.find("'second'"), std::string::npos) << error;
  EXPECT_NE(error.find("'first'"), std::string::npos) << error;
  declared(table, spec("touches the end", {{at(1040), 4}}));
  declared(table, spec("touches the begin", {{at(996), 1}}));
}

TEST(RangeTable, OverlapCountsBytesOfTheOwnType) {
  RangeTable table(4);
  RangeSpec half = spec("half", {{at(1000), 10}});
  half.type = ElementType::kFp16;  // up to 1020
  declared(table, half);
  declared(table, spec("beside", {{at(1020), 1}}));
  RangeSpec wide = spec("wide", {{at(900), 13}});
  wide.type = ElementType::kFp64;  // up to 1004
  refused(table, wide);
}

TEST(RangeTable, InputsMayLieAnywhere) {
  RangeTable table(4);
  const std::uint32_t result = declared(table, spec("r", {{at(1000), 10}}));
  const std::uint32_t input = declared(table, spec("i", {{at(1004), 2}}, false));
  declared(table, spec("j", {{at(1000), 10}}, false));
  EXPECT_EQ(touched(table, 1000, 40), (Touched{{result, true}}));
  EXPECT_EQ(touched(table, 1004, 8, false).count(input), 1u);
}

TEST(RangeTable, EmptySegmentsHoldNothing) {
  RangeTable table(4);
  const std::uint32_t a = declared(table, spec("a", {{at(1000), 0}, {at(1000), 4}}));
  declared(table, spec("b", {{at(1004), 0}}));
  declared(table, spec("none", {}));
  EXPECT_EQ(touched(table, 1000, 16), (Touched{{a, true}}));
  EXPECT_TRUE(touched(table, 1000, 0).empty());
}

TEST(RangeTable, RebuiltBucketGetsItsSlotBack) {
  RangeTable table(8);
  const std::uint32_t a = declared(table, spec("a", {{at(1000), 1}}));
  const std::uint32_t b = declared(table, spec("b", {{at(2000), 1}}));
  table.retire_all();
  EXPECT_EQ(declared(table, spec("b", {{at(3000), 1}})), b);
  EXPECT_EQ(declared(table, spec("a", {{at(4000), 1}})), a);
  EXPECT_EQ(declared(table, spec("c", {{at(5000), 1}})), 2u);
}

TEST(RangeTable, FullTableTakesFreeSlotsThenRefuses) {
  RangeTable table(2);
  declared(table, spec("a", {{at(1000), 1}}));
  const std::uint32_t b = declared(table, spec("b", {{at(2000), 1}}));
  const std::string error = refused(table, spec("c", {{at(3000), 1}}));
  EXPECT_NE(error.find("'c'"), std::string::npos) << error;
  EXPECT_NE(error.find("2 ranges"), std::string::npos) << error;
  table.retire(b);
  EXPECT_EQ(declared(table, spec("c", {{at(3000), 1}})), b);
}

TEST(RangeTable, TouchingTellsPartFromWhole) {
  RangeTable table(4);
  const std::uint32_t id = declared(table, spec("a", {{at(1000), 4}, {at(2000), 4}}));
  struct {
    std::uint64_t begin, bytes;
    Touched want;
  } const cases[] = {
      {1000, 1016, {{id, true}}},
      {1000, 16, {{id, false}}},
      {2000, 16, {{id, false}}},
      {1000, 1015, {{id, false}}},
      {1001, 1015, {{id, false}}},
      {0, 1000, {}},
      {1016, 984, {}},
      {1015, 986, {{id, false}}},
      {0, 5000, {{id, true}}},
  };
  for (const auto& c : cases)
    EXPECT_EQ(touched(table, c.begin, c.bytes), c.want) << c.begin << ' ' << c.bytes;
}

TEST(RangeTable, BeginStepForgetsTheStepButNotAbsence) {
  RangeTable table(4);
  const std::uint32_t id = declared(table, spec("a", {{at(1000), 4}}));
  Range& r = table.slot(id);
  r.covered = r.attributed = r.reduced = r.absent = true;
  table.begin_step();
  EXPECT_FALSE(r.covered || r.attributed || r.reduced);
  EXPECT_TRUE(r.absent);
}

// The same questions asked of plain lists of bytes.
struct Brute {
  struct One {
    RangeSpec spec;
    bool declared = false;
  };
  std::map<std::uint32_t, One> ranges;

  static bool meets(const RangeSpec& s, std::uint64_t begin, std::uint64_t end, bool* whole) {
    bool any = false;
    *whole = true;
    for (const device::Segment& seg : s.segments) {
      if (seg.count == 0) continue;
      const auto from = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(seg.data));
      const std::uint64_t to = from + seg.count * element_size(s.type);
      any = any || (from < end && begin < to);
      *whole = *whole && from >= begin && to <= end;
    }
    return any;
  }

  bool overlaps(const RangeSpec& s) const {
    bool whole = false;
    for (const device::Segment& seg : s.segments) {
      const auto from = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(seg.data));
      for (const auto& [id, one] : ranges) {
        if (!one.declared || !one.spec.result || seg.count == 0) continue;
        if (meets(one.spec, from, from + seg.count * element_size(s.type), &whole)) return true;
      }
    }
    return false;
  }

  Touched touching(std::uint64_t begin, std::uint64_t bytes, bool result) const {
    Touched found;
    for (const auto& [id, one] : ranges) {
      bool whole = false;
      if (bytes != 0 && one.declared && one.spec.result == result &&
          meets(one.spec, begin, begin + bytes, &whole)) {
        found[id] = whole;
      }
    }
    return found;
  }
};

constexpr std::uint64_t kBase = 4096, kSpan = 600;

RangeSpec random_spec(std::mt19937_64& random) {
  constexpr std::array kTypes = {ElementType::kFp32, ElementType::kFp16, ElementType::kBf16,
                                 ElementType::kFp64};
  RangeSpec s = spec("n" + std::to_string(below(random, 12)), {}, chance(random, 0.7));
  s.type = kTypes[below(random, kTypes.size())];
  for (std::uint64_t left = below(random, 4); left > 0; --left) {
    s.segments.push_back({at(kBase + below(random, kSpan)), below(random, 9)});
  }
  s.parameters.resize(s.segments.size());
  return s;
}

void random_change(RangeTable& table, Brute& brute, std::mt19937_64& random) {
  if (chance(random, 0.3)) {
    const auto id = static_cast<std::uint32_t>(below(random, 20));
    const auto it = brute.ranges.find(id);
    const bool there = it != brute.ranges.end() && it->second.declared;
    EXPECT_EQ(table.retire(id), there);
    if (there) it->second.declared = false;
    return;
  }
  RangeSpec s = random_spec(random);
  const bool refuse = s.result && brute.overlaps(s);
  std::uint32_t id = 0;
  std::string error;
  const bool accepted = table.declare(s, &id, &error);
  if (!accepted) {
    EXPECT_TRUE(refuse || error.find("declared already") != std::string::npos) << error;
    return;
  }
  EXPECT_FALSE(refuse) << s.name;
  EXPECT_FALSE(brute.ranges[id].declared) << "slot " << id << " was taken";
  brute.ranges[id] = {std::move(s), true};
}

TEST(RangeTable, RandomDeclarationsAgreeWithBruteForce) {
  std::mt19937_64 random = test::seeded("range table");
  for (int round = 0; round < 50; ++round) {
    RangeTable table(16);
    Brute brute;
    for (int i = 0; i < 60; ++i) {
      random_change(table, brute, random);
      const std::uint64_t begin = kBase + below(random, kSpan) - 20, bytes = below(random, 200);
      for (const bool result : {true, false}) {
        ASSERT_EQ(touched(table, begin, bytes, result), brute.touching(begin, bytes, result))
            << "round " << round << ", change " << i;
      }
    }
  }
}

}  // namespace
}  // namespace stepgate::gate

// tests/skips.txt covers every test that can skip itself, on whatever machine: by the sources, not by what
// happens to be skipped here.
#include "tests/repo/skips.h"

#include <gtest/gtest.h>

#include "tests/repo/ctest_names.h"

namespace stepgate::repo {
namespace {

TEST(Skips, EveryTestThatCanSkipIsListed) {
  std::vector<SkipSite> sites;
  for (const SourceFile& file : read_sources(source_root())) {
    if (!file.path.starts_with("tests/") || file.path.starts_with("tests/repo/")) continue;
    for (SkipSite& site : skip_sites(file)) sites.push_back(std::move(site));
  }
  EXPECT_GT(sites.size(), 15u);
  const Listed listed = parse_listed(read_file(source_root(), "tests/skips.txt").lines);
  const auto problems = check_skips_are_listed(sites, ctest_names(), listed);
  EXPECT_TRUE(problems.empty()) << joined(problems);
}

const std::string kSkip = std::string("  GTEST_") + "SKIP() << \"why it cannot run\";";

TEST(SkipChecks, SitesSayWhoseTheyAre) {
  const std::vector<SkipSite> sites =
      skip_sites({"a.cc",
                  {"class Whole : public testing::Test {", "  void SetUp() override {", kSkip, "  }", "};",
                   "TEST_F(Whole, Case) {", "  run();", "}", "TEST(One, Case) {", kSkip, "}",
                   "void helper() {", kSkip, "}"}});
  ASSERT_EQ(sites.size(), 3u);
  EXPECT_EQ(sites[0].where + " " + sites[0].suite + " " + sites[0].name, "a.cc:3 Whole ");
  EXPECT_EQ(sites[1].where + " " + sites[1].suite + " " + sites[1].name, "a.cc:10 One Case");
  EXPECT_EQ(sites[2].where + " " + sites[2].suite + " " + sites[2].name, "a.cc:13  ");
}

TEST(SkipChecks, WhatNoLineCoversIsFound) {
  const std::set<std::string> tests = {"p.Whole.One", "p.Whole.Two", "p.All/Values.Case/3", "q_NOT_BUILT"};
  const auto problems = [&](const SkipSite& site, const std::string& pattern) {
    return check_skips_are_listed({site}, tests, {{pattern, "why"}}).size();
  };
  EXPECT_EQ(problems({"a.cc:1", "Whole", ""}, "p\\.Whole\\..*"), 0u);
  EXPECT_EQ(problems({"a.cc:1", "Whole", ""}, "p\\.Whole\\.One"), 1u) << "its other case";
  EXPECT_EQ(problems({"a.cc:1", "Whole", "One"}, "p\\.Whole\\.One"), 0u);
  EXPECT_EQ(problems({"a.cc:1", "Whole", "One"}, "q\\.Whole\\.One"), 1u) << "another program's";
  EXPECT_EQ(problems({"a.cc:1", "Values", "Case"}, "p\\.All/Values\\.Case/[0-9]"), 0u);
  EXPECT_EQ(problems({"a.cc:1", "Values", "Case"}, "p\\.Values\\.Case"), 1u) << "without its parameter";
  EXPECT_EQ(problems({"a.cc:1", "Later", "Case"}, "q\\.Later\\.Case"), 0u) << "not built yet";
  EXPECT_EQ(problems({"a.cc:1", "Later", "Case"}, "q\\.Later\\.Other"), 1u);
  EXPECT_EQ(problems({"a.cc:1", "", ""}, ".*"), 1u);
}

}  // namespace
}  // namespace stepgate::repo

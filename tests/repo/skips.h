// Which tests may skip themselves: every GTEST_SKIP of the sources, and the patterns of tests/skips.txt.
//
// Thread: any; functions without state.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/repo/source_tree.h"
#include "tests/repo/texts.h"

namespace stepgate::repo {

// A GTEST_SKIP and who it takes out: one case, or every case of a fixture (it stands in SetUp).
struct SkipSite {
  std::string where;  // "tests/a_test.cc:12"
  std::string suite;  // "" it stands in neither, so nobody can tell
  std::string name;   // of the case; "" all of the fixture's
};

std::vector<SkipSite> skip_sites(const SourceFile& file);

// One sentence for each site that a test named by it could skip at without a line of the list covering it.
// tests: whole names as ctest prints them, "program.Suite.Case" with parameters. Where the tree has not built
// a site's program, the pattern is held against the name behind the program's.
std::vector<std::string> check_skips_are_listed(const std::vector<SkipSite>& sites,
                                                const std::set<std::string>& tests, const Listed& listed);

}  // namespace stepgate::repo

// README.md's configuration table equals the code's.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/repo/config_table_markdown.h"
#include "tests/repo/source_tree.h"

namespace stepgate::repo {
namespace {

std::vector<std::string> table_of_readme() {
  const auto lines = read_file(source_root(), "README.md").lines;
  const auto begin = std::find(lines.begin(), lines.end(), kTableBegin);
  const auto end = std::find(begin, lines.end(), kTableEnd);
  if (end == lines.end()) return {};
  return {begin + 1, end};
}

TEST(ConfigTable, ReadmeEqualsTheCode) {
  const auto readme = table_of_readme();
  ASSERT_FALSE(readme.empty()) << "README.md lost the marks around its configuration table";
  EXPECT_EQ(readme, config_table_markdown())
      << "put the output of build/dev/bin/print_config_table between the marks in README.md";
}

TEST(ConfigTable, EveryEntryIsComplete) {
  std::set<std::string> names;
  const std::set<std::string> types = {"choice", "number", "integer", "text", "path"};
  for (const gate::ConfigEntry& entry : gate::config_table()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name << " stands twice";
    EXPECT_TRUE(types.contains(entry.type)) << entry.name << ": type " << entry.type;
    EXPECT_STRNE(entry.allowed, "") << entry.name;
    EXPECT_STRNE(entry.text, "") << entry.name;
  }
  EXPECT_TRUE(names.contains("STEPGATE_MODE"));
}

}  // namespace
}  // namespace stepgate::repo

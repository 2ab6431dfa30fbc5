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
  const auto code = config_table_markdown();
  for (const std::string& row : code) {
    EXPECT_NE(std::find(readme.begin(), readme.end(), row), readme.end()) << "README.md lacks: " << row;
  }
  for (const std::string& row : readme) {
    EXPECT_NE(std::find(code.begin(), code.end(), row), code.end()) << "README.md has too much: " << row;
  }
  EXPECT_TRUE(readme == code) << "run tests/repo/update-readme-table.sh";
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

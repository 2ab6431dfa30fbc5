// docs/hazards.md: every row names what holds it, and every name exists in this tree.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/repo/ctest_names.h"
#include "tests/repo/source_tree.h"

namespace stepgate::repo {
namespace {
namespace fs = std::filesystem;

struct Row {
  std::string line;
  std::vector<std::string> cells;
};

// Cells between the bars of a table's line.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::size_t at = 1;
  for (std::size_t bar; (bar = line.find('|', at)) != std::string::npos; at = bar + 1) {
    cells.push_back(line.substr(at, bar - at));
  }
  return cells;
}

std::vector<Row> rows_of_the_document() {
  std::vector<Row> rows;
  for (const std::string& line : read_file(source_root(), "docs/hazards.md").lines) {
    if (!line.starts_with("|") || line.starts_with("|---") || line.starts_with("| fact |")) continue;
    rows.push_back({line, cells_of(line)});
  }
  return rows;
}

// Words in backquotes.
std::vector<std::string> quoted(const std::string& cell) {
  std::vector<std::string> names;
  for (std::size_t at = 0; (at = cell.find('`', at)) != std::string::npos;) {
    const std::size_t end = cell.find('`', at + 1);
    if (end == std::string::npos) break;
    names.push_back(cell.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names;
}

// "program.Prefix/Suite.Case/2" as "program.Suite.Case"; what is no test of a GoogleTest program stays.
std::string without_parameters(const std::string& name) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  for (std::size_t dot; (dot = name.find('.', at)) != std::string::npos; at = dot + 1) {
    parts.push_back(name.substr(at, dot - at));
  }
  parts.push_back(name.substr(at));
  if (parts.size() != 3 || parts[2].empty() || parts[2][0] < 'A' || parts[2][0] > 'Z') return name;
  parts[1] = parts[1].substr(parts[1].rfind('/') + 1);
  return parts[0] + "." + parts[1] + "." + parts[2].substr(0, parts[2].find('/'));
}

// Also without their parameters.
std::set<std::string> tests_of_this_tree() {
  std::set<std::string> names = ctest_names();
  for (const std::string& name : ctest_names())
    names.insert(without_parameters(name.substr(0, name.find(' '))));
  return names;
}

// "Suite.Case" of every TEST(Suite, Case), TEST_F and TEST_P in the sources.
std::set<std::string> tests_of_the_sources() {
  std::set<std::string> names;
  for (const SourceFile& file : read_sources(source_root())) {
    for (const std::string& line : file.lines) {
      const std::size_t open = line.find('('), comma = line.find(", ", open), end = line.find(')', comma);
      if (!line.starts_with("TEST") || end == std::string::npos) continue;
      names.insert(line.substr(open + 1, comma - open - 1) + "." + line.substr(comma + 2, end - comma - 2));
    }
  }
  return names;
}

// Where somebody builds one target at a time, the sources say what the other programs would hold.
bool is_test(const std::string& name, const std::set<std::string>& tests,
             const std::set<std::string>& sources) {
  if (tests.contains(name)) return true;
  const std::size_t dot = name.find('.');
  return tests.contains(name.substr(0, dot) + "_NOT_BUILT") && sources.contains(name.substr(dot + 1));
}

bool exists(const std::string& name, const std::set<std::string>& tests,
            const std::set<std::string>& sources) {
  return is_test(name, tests, sources) || fs::is_regular_file(source_root() / name);
}

TEST(Hazards, EveryRowNamesWhatHoldsItAndThatExists) {
  const std::set<std::string> tests = tests_of_this_tree();
  EXPECT_GT(tests.size(), 100u);
  const std::set<std::string> sources = tests_of_the_sources();
  EXPECT_GT(sources.size(), 800u);
  const std::vector<Row> rows = rows_of_the_document();
  EXPECT_GT(rows.size(), 60u);
  for (const Row& row : rows) {
    ASSERT_EQ(row.cells.size(), 3u) << row.line;
    const std::vector<std::string> names = quoted(row.cells[2]);
    EXPECT_TRUE(std::any_of(names.begin(), names.end(),
                            [&](const std::string& name) { return is_test(name, tests, sources); }))
        << "a file alone holds nobody to anything: " << row.line;
    for (const std::string& name : names)
      EXPECT_TRUE(exists(name, tests, sources)) << name << " in: " << row.line;
  }
}

TEST(Hazards, NoFactStandsTwice) {
  std::set<std::string> facts;
  for (const Row& row : rows_of_the_document()) EXPECT_TRUE(facts.insert(row.cells.at(0)).second) << row.line;
}

TEST(Hazards, TheCheckSeesWhatIsMissing) {
  const std::set<std::string> tests = {"a_test.Suite.Case", "later_test_NOT_BUILT"};
  const std::set<std::string> sources = {"Any.Thing"};
  EXPECT_TRUE(exists("a_test.Suite.Case", tests, sources));
  EXPECT_FALSE(exists("a_test.Suite.Other", tests, sources));
  EXPECT_FALSE(exists("a_test.Any.Thing", tests, sources));
  EXPECT_TRUE(exists("later_test.Any.Thing", tests, sources));
  EXPECT_FALSE(exists("later_test.Any.Other", tests, sources));
  EXPECT_TRUE(exists("docs/hazards.md", tests, sources));
  EXPECT_FALSE(exists("docs/no-such-file.md", tests, sources));
  EXPECT_EQ(without_parameters("p.All/Suite.Case/shm_0"), "p.Suite.Case");
  EXPECT_EQ(without_parameters("p.Suite.Case"), "p.Suite.Case");
  EXPECT_EQ(without_parameters("header.a/b.h"), "header.a/b.h");
}

}  // namespace
}  // namespace stepgate::repo

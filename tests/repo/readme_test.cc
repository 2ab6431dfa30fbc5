// What README.md shows is true: its C example compiles as strict C99, its files and commands exist.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "tests/repo/source_tree.h"

namespace stepgate::repo {
namespace {
namespace fs = std::filesystem;

// Lines of the first fenced block in that language.
std::vector<std::string> fenced_block(const std::string& language) {
  std::vector<std::string> block;
  bool inside = false;
  for (const std::string& line : read_file(source_root(), "README.md").lines) {
    if (inside && line == "```") break;
    if (inside) block.push_back(line);
    if (line == "```" + language) inside = true;
  }
  return block;
}

// The example as a translation unit: its includes, then the rest as a function's body.
std::string as_program(const std::vector<std::string>& example) {
  std::string includes, body;
  for (const std::string& line : example) (line.starts_with("#") ? includes : body) += line + "\n";
  return includes + "void job(void* comm, int rank, void* stream, void* grad, uint64_t count);\n" +
         "void job(void* comm, int rank, void* stream, void* grad, uint64_t count) {\n" + body + "}\n";
}

TEST(Readme, ExampleCompilesAsC99) {
  const auto example = fenced_block("c");
  ASSERT_GT(example.size(), 10u);
  std::string pattern = (fs::temp_directory_path() / "stepgate_readme_XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const fs::path folder = pattern;
  std::ofstream(folder / "example.c") << as_program(example);
  const std::string compile = std::string(STEPGATE_C_COMPILER) + " -std=c99 -Wall -Wextra -Werror -I'" +
                              source_root().string() + "/plugin/include' -fsyntax-only '" +
                              (folder / "example.c").string() + "' 2>&1";
  EXPECT_NO_THROW(run_command(compile)) << as_program(example);
  fs::remove_all(folder);
}

// Targets of [text](path) links, without those to other sites.
std::vector<std::string> links_of(const SourceFile& file) {
  std::vector<std::string> links;
  for (const std::string& line : file.lines) {
    for (std::size_t at = 0; (at = line.find("](", at)) != std::string::npos; at += 2) {
      const std::string target = line.substr(at + 2, line.find(')', at) - at - 2);
      if (target.find("://") == std::string::npos && !target.starts_with("#")) links.push_back(target);
    }
  }
  return links;
}

TEST(Readme, LinksOfAllDocumentsLeadSomewhere) {
  int seen = 0;
  for (const std::string& path : tracked_paths(source_root())) {
    if (!path.ends_with(".md")) continue;
    for (const std::string& target : links_of(read_file(source_root(), path))) {
      const fs::path full = source_root() / fs::path(path).parent_path() / target.substr(0, target.find('#'));
      EXPECT_TRUE(fs::exists(full)) << path << " links to " << target;
      ++seen;
    }
  }
  EXPECT_GT(seen, 5);
}

TEST(Readme, BothCommandsAreThereAndExecutable) {
  for (const char* path :
       {"integration/quickstart.sh", "tests/run.sh", "cmake/install-packages.sh", ".ci/run"}) {
    ASSERT_TRUE(fs::exists(source_root() / path)) << path;
    const auto rights = fs::status(source_root() / path).permissions();
    EXPECT_NE(rights & fs::perms::owner_exec, fs::perms::none) << path;
  }
  for (const char* path : {"integration/quickstart.sh", "tests/run.sh"}) {
    bool installs = false;
    for (const std::string& line : read_file(source_root(), path).lines) {
      installs = installs || line.find("install-packages.sh") != std::string::npos;
    }
    EXPECT_TRUE(installs) << path << " does not use cmake/install-packages.sh";
  }
}

}  // namespace
}  // namespace stepgate::repo

// The texts of the tree, and proof that each check sees what it looks for.
#include "tests/repo/texts.h"

#include <gtest/gtest.h>

namespace stepgate::repo {
namespace {

// Programs and scripts; documents, vectors and the licence may be as long as they like.
bool length_counts(const std::string& path) {
  return is_source(path) || path.ends_with(".sh") || path.ends_with(".cmake") ||
         path.ends_with("CMakeLists.txt");
}

template <typename Accept, typename Check>
std::vector<std::string> check_tree(Accept accept, Check check) {
  std::vector<std::string> problems;
  int checked = 0;
  for (const std::string& path : tracked_paths(source_root())) {
    if (!accept(path)) continue;
    ++checked;
    for (std::string& problem : check(read_file(source_root(), path))) problems.push_back(std::move(problem));
  }
  EXPECT_GT(checked, 0) << "the check looked at no file below " << source_root();
  return problems;
}

TEST(Texts, NameNoMachineAndNoHost) {
  const auto problems = check_tree(is_text, check_words);
  EXPECT_TRUE(problems.empty()) << joined(problems);
}

TEST(Texts, HeadersOpenWithTheirPurpose) {
  const auto problems = check_tree(is_header, check_header_opening);
  EXPECT_TRUE(problems.empty()) << joined(problems);
}

TEST(Texts, EverySkipHasAReason) {
  const auto problems = check_tree(is_source, check_skip_reasons);
  EXPECT_TRUE(problems.empty()) << joined(problems);
}

// One place per library: the core hands its getenv to the configuration table, hostnccl has its own, and
// the shim asks for one variable before main().
bool must_not_read_environment(const std::string& path) {
  const bool library =
      path.starts_with("collectives/") || path.starts_with("metrics/") || path.starts_with("plugin/");
  return library && is_source(path) && path != "plugin/core/entry.cc" &&
         path != "plugin/shim/ucx_environment.cc" && path != "collectives/hostnccl/config.cc";
}

TEST(Texts, LibrariesReadTheEnvironmentInOnePlace) {
  const auto problems = check_tree(must_not_read_environment, check_environment);
  EXPECT_TRUE(problems.empty()) << joined(problems);
}

TEST(Texts, FilesStayShort) {
  std::vector<SourceFile> files;
  for (const std::string& path : tracked_paths(source_root())) {
    if (length_counts(path)) files.push_back(read_file(source_root(), path));
  }
  const Listed listed = parse_listed(read_file(source_root(), "tests/repo/long_files.txt").lines);
  const auto problems = check_lengths(files, listed);
  EXPECT_TRUE(problems.empty()) << joined(problems);
}

TEST(Texts, ListOfSkipsIsWellFormed) {
  EXPECT_NO_THROW(parse_listed(read_file(source_root(), "tests/skips.txt").lines));
}

TEST(TextChecks, PlantedWordsAreFound) {
  const std::string slash = "/";
  const SourceFile bad{"a.md",
                       {"fine", "see " + slash + "work" + slash + "x", slash + "root" + slash + ".profile"}};
  EXPECT_EQ(check_words(bad).size(), 2u) << joined(check_words(bad));
  const SourceFile good{"a.md",
                        {"in network" + slash + "work" + slash + "load", "https://prometheus.io/docs"}};
  EXPECT_TRUE(check_words(good).empty()) << joined(check_words(good));
}

TEST(TextChecks, BareHeaderIsFound) {
  EXPECT_EQ(check_header_opening({"a.h", {"int x;"}}).size(), 2u);
  EXPECT_TRUE(check_header_opening({"a.h", {"// What.", "#pragma once"}}).empty());
}

TEST(TextChecks, SkipWithoutReasonIsFound) {
  const std::string skip = std::string("  GTEST_") + "SKIP()";
  EXPECT_EQ(check_skip_reasons({"a.cc", {skip + ";"}}).size(), 1u);
  EXPECT_EQ(check_skip_reasons({"a.cc", {skip + " << \"\";"}}).size(), 1u);
  EXPECT_TRUE(check_skip_reasons({"a.cc", {skip, "      << \"this machine has no AVX-512\";"}}).empty());
}

TEST(TextChecks, EnvironmentIsFound) {
  EXPECT_EQ(check_environment({"a.cc", {"x = std::getenv(name);", "y = secure_getenv(\"A\");"}}).size(), 2u);
  EXPECT_TRUE(check_environment({"a.cc", {"// getenv(name) races", "std::fegetenv(&saved_);"}}).empty());
}

TEST(TextChecks, LongAndStaleFilesAreFound) {
  const SourceFile longest{"a.cc", std::vector<std::string>(kMaxLines + 1)};
  const SourceFile shorter{"b.cc", std::vector<std::string>(kMaxLines)};
  EXPECT_EQ(check_lengths({longest, shorter}, {}).size(), 1u);
  EXPECT_TRUE(check_lengths({longest, shorter}, {{"a.cc", "why"}}).empty());
  EXPECT_EQ(check_lengths({shorter}, {{"b.cc", "why"}}).size(), 1u);
  EXPECT_THROW(parse_listed({"a.cc | "}), std::runtime_error);
}

}  // namespace
}  // namespace stepgate::repo

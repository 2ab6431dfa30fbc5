// Rules of building and measuring that only a text shows: what was learnt once and is easily undone. Each is
// a row of docs/hazards.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "tests/repo/source_tree.h"

namespace stepgate::repo {
namespace {

constexpr char kThisFile[] = "tests/repo/build_rules_test.cc";

// "path:line" of every line of the build's and the tests' texts that matches.
std::vector<std::string> lines_that_match(const std::string& expression, const std::string& path_ends = "") {
  const std::regex wanted(expression);
  std::vector<std::string> found;
  for (const std::string& path : tracked_paths(source_root())) {
    if (path == kThisFile || path.ends_with(".md") || !is_text(path) || !path.ends_with(path_ends)) continue;
    const SourceFile file = read_file(source_root(), path);
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      if (std::regex_search(file.lines[i], wanted)) found.push_back(path + ":" + std::to_string(i + 1));
    }
  }
  return found;
}

bool has_line(const std::string& path, const std::string& expression) {
  const std::vector<std::string> lines = read_file(source_root(), path).lines;
  const std::regex wanted(expression);
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return std::regex_search(line, wanted); });
}

TEST(BuildRules, NoTestPaysForGmock) {
  const std::vector<std::string> found = lines_that_match("gmock");
  EXPECT_TRUE(found.empty()) << joined(found);
}

TEST(BuildRules, SanitizerTestsAreUnityBuilds) {
  EXPECT_TRUE(has_line("cmake/StepgateTargets.cmake", "UNITY_BUILD ON"));
}

TEST(BuildRules, PrometheusIsFoundWithoutAVersion) {
  const std::vector<std::string> found = lines_that_match(R"(find_package\(prometheus-cpp)");
  ASSERT_EQ(found.size(), 1u) << joined(found);
  EXPECT_TRUE(
      has_line("CMakeLists.txt", R"(find_package\(prometheus-cpp CONFIG REQUIRED COMPONENTS pull\))"));
}

// Debian's refuses outside of one.
TEST(BuildRules, PipStaysInAVirtualEnvironment) {
  const std::vector<std::string> uses = lines_that_match(R"(\bpip3?"? (install|download)\b)", ".sh");
  EXPECT_FALSE(uses.empty());
  for (const std::string& use : uses) {
    EXPECT_TRUE(has_line(use.substr(0, use.find(':')), "-m venv")) << use;
  }
}

TEST(BuildRules, OpenMpiKeepsItsMemoryWhereItIsMeasured) {
  for (const char* variable : {"MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=", "MALLOC_TOP_PAD_="}) {
    EXPECT_TRUE(has_line("tests/bench/hostnccl/run.sh", variable)) << variable;
  }
}

TEST(BuildRules, LargeBuffersAreAdvisedBeforeTheyAreTimed) {
  for (const char* program : {"tests/bench/host_scan/bench_host_scan.cc", "tests/bench/transport/main.cc"}) {
    EXPECT_TRUE(has_line(program, "MADV_HUGEPAGE")) << program;
  }
}

}  // namespace
}  // namespace stepgate::repo

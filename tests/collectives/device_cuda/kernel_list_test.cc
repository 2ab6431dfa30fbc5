// The stand-in runs the kernels that the fatbin is made of, all of them and no others: its table against
// the entry points that the text of kernels.cu defines. (The machine-code test compares the same list
// with the symbols of the fatbin, where there is one.)
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>

#include "collectives/device/cuda/kernels/arguments.h"
#include "tests/standin_cuda/driver/kernel_lookup.h"

namespace stepgate::test {
namespace {

// Lines of a source, those that end with a backslash joined.
std::vector<std::string> logical_lines(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in) << path;
  std::vector<std::string> lines;
  std::string joined;
  for (std::string line; std::getline(in, line);) {
    const bool goes_on = !line.empty() && line.back() == '\\';
    joined += goes_on ? line.substr(0, line.size() - 1) : line;
    if (goes_on) continue;
    lines.push_back(joined);
    joined.clear();
  }
  return lines;
}

std::string until(const std::string& text, std::size_t from, const char* ends) {
  return text.substr(from, text.find_first_of(ends, from) - from);
}

// Macros that define a kernel named PREFIX##FIRST_ARGUMENT, their uses, and kernels written out.
std::set<std::string> entry_points(const std::vector<std::string>& lines) {
  std::map<std::string, std::string> prefixes;
  std::set<std::string> names;
  for (const std::string& line : lines) {
    const std::size_t glue = line.find("##");
    if (line.rfind("#define ", 0) == 0) {
      const std::size_t name = line.rfind("stepgate_", glue);
      if (line.find("__global__") == std::string::npos || glue == std::string::npos) continue;
      prefixes[until(line, 8, "( ")] = line.substr(name, glue - name);
    } else if (const auto macro = prefixes.find(until(line, 0, "( ")); macro != prefixes.end()) {
      names.insert(macro->second + until(line, macro->first.size() + 1, ",)"));
    } else if (const std::size_t at = line.find("stepgate_"); line.find("__grid_constant__") != at) {
      if (line.find("__grid_constant__") != std::string::npos) names.insert(until(line, at, "("));
    }
  }
  return names;
}

TEST(KernelList, TheStandInRunsWhatTheFatbinIsMadeOf) {
  std::set<std::string> run, listed;
  for (const standin::CpuKernel& k : standin::all_kernels()) EXPECT_TRUE(run.insert(k.name).second) << k.name;
#define STEPGATE_KERNEL_NAME(NAME, ARGUMENTS) listed.insert(#NAME);
  STEPGATE_CUDA_KERNELS(STEPGATE_KERNEL_NAME)
#undef STEPGATE_KERNEL_NAME
  EXPECT_EQ(run, listed);
  const std::set<std::string> defined =
      entry_points(logical_lines(STEPGATE_SOURCE_FOLDER "/collectives/device/cuda/kernels/kernels.cu"));
  EXPECT_EQ(run, defined);
  EXPECT_GT(defined.size(), 20u);
}

// The reading itself.
TEST(KernelList, FindsEntryPointsInText) {
  const std::vector<std::string> lines = {
      "#define OTHER(NAME) stepgate_no_##NAME",
      "#define MAKE(NAME, F)  extern \"C\" __global__ void stepgate_a_##NAME(const __grid_constant__ A a) {}",
      "MAKE(one, f)",
      "MAKE(two, f)",
      "OTHER(three)",
      "    stepgate_four(const __grid_constant__ A a) {"};
  EXPECT_EQ(entry_points(lines),
            (std::set<std::string>{"stepgate_a_one", "stepgate_a_two", "stepgate_four"}));
}

}  // namespace
}  // namespace stepgate::test

// Our declarations of the NCCL ABI against NVIDIA's, and against themselves.
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/collectives/nccl_abi/declarations.h"

extern "C" std::size_t nccl_abi_c99_unique_id_size();

namespace {

std::map<std::string, std::string> by_name(const std::vector<Declaration>& declarations) {
  std::map<std::string, std::string> types;
  for (const Declaration& d : declarations) types[d.name] = d.type;
  return types;
}

std::string our_header() {
  std::ifstream file("collectives/nccl_abi/nccl_abi.h");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A declaration begins its line with the type that it returns.
std::set<std::string> functions_in(const std::string& header) {
  std::set<std::string> names;
  std::istringstream lines(header);
  for (std::string line; std::getline(lines, line);) {
    for (const std::string result : {"ncclResult_t ", "const char* "}) {
      if (line.rfind(result + "nccl", 0) != 0) continue;
      names.insert(line.substr(result.size(), line.find('(') - result.size()));
    }
  }
  return names;
}

// The names before " = ".
std::set<std::string> enumerators_in(const std::string& text) {
  std::set<std::string> names;
  for (std::size_t at = text.find(" = "); at != std::string::npos; at = text.find(" = ", at + 1)) {
    const std::size_t begin = text.find_last_of(" {(,\n", at - 1) + 1;
    const std::string name = text.substr(begin, at - begin);
    if (name.rfind("nccl", 0) == 0) names.insert(name);
  }
  return names;
}

TEST(NcclAbi, EveryDeclaredFunctionIsCompared) {
  const std::set<std::string> declared = functions_in(our_header());
  std::set<std::string> compared;
  for (const Declaration& d : our_declarations()) compared.insert(d.name);
  EXPECT_GT(declared.size(), 30u);
  EXPECT_EQ(declared, compared);
}

TEST(NcclAbi, EveryEnumeratorIsCompared) {
  std::ifstream file("tests/collectives/nccl_abi/nvidia.cc");
  std::stringstream checks;
  checks << file.rdbuf();
  const std::set<std::string> names = enumerators_in(our_header());
  EXPECT_GT(names.size(), 30u);
  for (const std::string& name : names) {
    EXPECT_NE(checks.str().find("SAME_VALUE(" + name + ");"), std::string::npos)
        << name << " is not compared";
  }
}

TEST(NcclAbi, FunctionTypesAreNvidias) {
  if (nvidia_version() == 0) {
    GTEST_SKIP() << "this machine has no nccl.h with CUDA's headers (looked for nccl.h and cuda_runtime.h "
                    "at configure time)";
  }
  ASSERT_GE(nvidia_version(), 21800);
  const auto ours = by_name(our_declarations());
  const auto nvidia = nvidia_declarations();
  EXPECT_GE(nvidia.size(), 27u);
  for (const Declaration& d : nvidia) {
    ASSERT_EQ(ours.count(d.name), 1u) << d.name;
    EXPECT_EQ(ours.at(d.name), d.type) << d.name;
  }
}

// The values were compared by the compiler; this case says so, or why not.
TEST(NcclAbi, ValuesAndSizesAreNvidias) {
  if (nvidia_version() == 0) {
    GTEST_SKIP() << "this machine has no nccl.h with CUDA's headers: nvidia.cc was not compiled";
  }
  SUCCEED() << "static_asserts of nvidia.cc against version " << nvidia_version();
}

TEST(NcclAbi, CompilesAsC99) {
  EXPECT_EQ(nccl_abi_c99_unique_id_size(), 128u);
}

}  // namespace

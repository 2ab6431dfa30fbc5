// The same over NVIDIA's own libnccl.so.2. Without a GPU no communicator comes into being; its error is what
// has to pass through unchanged. tests/full/nccl-releases.sh does this for every release on PyPI.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/plugin/shim/loaders/loader_runs.h"

namespace stepgate::test {
namespace {

class Nvidia : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(LOADER_TEST_NVIDIA).empty()) GTEST_SKIP() << "needs NVIDIA's libnccl.so.2";
  }
  static Variables variables() {
    return loader_variables(std::filesystem::path(LOADER_TEST_NVIDIA).parent_path().string());
  }
  static std::string word_of(const Outcome& o, const std::string& name) {
    for (const std::string& line : lines_of(o.out)) {
      if (line.starts_with(name + " ")) return line.substr(name.size() + 1);
    }
    ADD_FAILURE() << "no " << name << " in: " << o.out << o.err;
    return "";
  }
  // What the library itself answers, asked without the plugin.
  static Outcome without_plugin() {
    Variables plain = variables();
    plain["LD_PRELOAD"] = LOADER_TEST_RUNTIME;
    return run({LOADER_TEST_PROBE}, plain);
  }
};

TEST_F(Nvidia, EveryHookAnswersAsTheLibraryDoes) {
  const Outcome o = run({LOADER_TEST_PROBE}, variables());
  ASSERT_EQ(o.status, 0) << o.out << o.err;
  int functions = 0;
  for (const std::string& line : lines_of(o.out)) {
    const std::size_t hook = line.find(" hook="), direct = line.find(" direct=");
    if (hook == std::string::npos || direct == std::string::npos) continue;
    ++functions;
    const std::string name = line.substr(0, hook);
    const std::string through = line.substr(hook + 6, direct - hook - 6), itself = line.substr(direct + 8);
    if (itself == "absent") {
      EXPECT_EQ(through, "5") << line;
      EXPECT_NE(o.err.find("has no nccl" + name + ";"), std::string::npos) << o.err;
    } else {
      EXPECT_EQ(through, itself) << line;
    }
  }
  EXPECT_EQ(functions, 27) << o.out;
  EXPECT_EQ(word_of(o, "library"), LOADER_TEST_NVIDIA);
}

TEST_F(Nvidia, VersionAndInitResultPassThroughHoweverItIsLoaded) {
  const Outcome plain = without_plugin();
  const std::string version = word_of(plain, "version"), answer = word_of(plain, "init");
  const std::string code = answer.substr(0, answer.find(' ')).substr(answer.find('=') + 1);
  std::map<std::string, Outcome> ways;
  ways["linked"] = run_loader({"linked"}, variables());
  ways["local"] = run_loader({"local", loader_library("shared")}, variables());
  ways["bsymbolic"] = run_loader({"local", loader_library("bsymbolic")}, variables());
  ways["python"] =
      run_python("import ctypes; ctypes.CDLL('" + loader_library("shared") + "').use_nccl()", variables());
  for (const auto& [name, o] : ways) {
    EXPECT_EQ(o.status, 0) << name << o.out << o.err;
    EXPECT_EQ(word_of(o, "version"), version) << name;
    EXPECT_EQ(word_of(o, "init"), code) << name;
    EXPECT_EQ(times_said(o, "hooks missed"), 0u) << name << o.err;
  }
}

TEST_F(Nvidia, WaysPastTheHooksAreToldAtTheEnd) {
  const Outcome handle = run_loader({"local", loader_library("dlsym")}, variables());
  EXPECT_EQ(times_said(handle, "hooks missed (dlsym)"), 1u) << handle.err;
  const Outcome deep = run_loader({"deepbind", loader_library("shared")}, variables());
  EXPECT_EQ(deep.status, 0) << deep.out << deep.err;
  EXPECT_EQ(word_of(deep, "init"), word_of(handle, "init"));
  EXPECT_EQ(times_said(deep, "hooks missed (deepbind)"), 1u) << deep.err;
}

// The wrapper is linked to NVIDIA's, and the second copy stands inside another library.
TEST_F(Nvidia, TailCallBesideASecondCopyIsTold) {
  const Outcome o = run_loader({"wrapper", loader_library("wrapper"), loader_library("second")}, variables());
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_NE(word_of(o, "split"), "0") << "there is no communicator";
  EXPECT_EQ(times_said(o, "hooks missed (tail_call)"), 1u) << o.err;
  EXPECT_NE(o.out.find("cause=\"tail_call\""), std::string::npos) << o.out;
}

TEST_F(Nvidia, BesideACopyInsideALibrary) {
  const Outcome o = run_loader({"local", loader_library("shared"), loader_library("second")}, variables());
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  expect_line(o, "version 21805");
  expect_line(o, "counted 3");
  expect_line(o, "sum 6");
}

}  // namespace
}  // namespace stepgate::test

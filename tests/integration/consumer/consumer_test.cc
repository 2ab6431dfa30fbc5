// StepGate as somebody else's project uses it: installed into a prefix of its own, which is then moved.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/integration/process.h"

namespace stepgate::test {
namespace {

namespace fs = std::filesystem;
using Variables = std::map<std::string, std::string>;

const std::string kProject = STEPGATE_TEST_SOURCE "/tests/integration/consumer/project";

std::string content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

const std::string kSaid = STEPGATE_TEST_VERSION "\n";

// An installation in a prefix that was moved after it.
class Consumer : public testing::Test {
 protected:
  void SetUp() override {
    const std::string first = folder_.file("first");
    const Outcome o = run({CONSUMER_TEST_CMAKE, "--install", CONSUMER_TEST_BUILD, "--prefix", first});
    ASSERT_EQ(o.status, 0) << o.out << o.err;
    fs::rename(first, prefix());
  }

  std::string prefix() const { return folder_.file("moved"); }
  std::string at(const std::string& name) const { return prefix() + "/" + name; }
  std::string built(const std::string& name) const { return folder_.file("build/" + name); }

  Outcome run_program(const std::vector<std::string>& words, Variables variables = {}) const {
    variables.emplace("STEPGATE_METRICS", "off");
    return run(words, variables);
  }
  void expect_says(const std::string& text, const std::vector<std::string>& words,
                   const Variables& more = {}) const {
    const Outcome o = run_program(words, more);
    EXPECT_EQ(o.status, 0) << words[0] << o.out << o.err;
    EXPECT_EQ(o.out, text) << o.err;
  }
  void build_project() const {
    const Outcome configured =
        run({CONSUMER_TEST_CMAKE, "-S", kProject, "-B", built(""), "-DCMAKE_PREFIX_PATH=" + prefix(),
             std::string("-DCMAKE_C_COMPILER=") + CONSUMER_TEST_CC,
             std::string("-DCMAKE_CXX_COMPILER=") + CONSUMER_TEST_CXX});
    ASSERT_EQ(configured.status, 0) << configured.out << configured.err;
    const Outcome made = run({CONSUMER_TEST_CMAKE, "--build", built("")});
    ASSERT_EQ(made.status, 0) << made.out << made.err;
  }
  // One of the project's C files, with nothing but pkg-config to say how.
  std::string by_pkg_config(const std::string& name) const {
    std::string program = folder_.file(name);
    const std::string command = CONSUMER_TEST_CC " -std=c99 -pedantic -Wall -Wextra -Werror " + kProject +
                                "/" + name + ".c -o " + program + " $(pkg-config --cflags --libs stepgate)" +
                                " -Wl,-rpath,$(pkg-config --variable=libdir stepgate)";
    const Outcome o = run({"sh", "-c", command}, path_of_pkg_config());
    EXPECT_EQ(o.status, 0) << o.err;
    return program;
  }
  Variables path_of_pkg_config() const { return {{"PKG_CONFIG_PATH", at("lib/pkgconfig")}}; }
  // find_package alone, in a project without a language: 1 or 0.
  std::string found(const std::string& request) const {
    const std::string source = folder_.file("find");
    fs::create_directory(source);
    std::ofstream(source + "/CMakeLists.txt")
        << "cmake_minimum_required(VERSION 3.16)\nproject(find NONE)\nfind_package(stepgate " << request
        << ")\nmessage(STATUS \"found ${stepgate_FOUND}\")\n";
    const Outcome o = run({CONSUMER_TEST_CMAKE, "-S", source, "-B", folder_.file("find/build"),
                           "-DCMAKE_PREFIX_PATH=" + prefix()});
    fs::remove_all(source);
    for (const std::string& line : lines_of(o.out)) {
      if (line.starts_with("-- found ")) return line.substr(9);
    }
    return o.out + o.err;
  }

 private:
  TemporaryFolder folder_;
};

// Linked, through the client that opens the plugin itself, through the client under a preload, from C++.
TEST_F(Consumer, ProjectConfiguresBuildsAndRuns) {
  ASSERT_NO_FATAL_FAILURE(build_project());
  expect_says("linked " + kSaid, {built("linked")});
  expect_says("client " + kSaid, {built("client"), at("lib/libstepgate.so")});
  expect_says("client " + kSaid, {built("client"), "-"}, {{"LD_PRELOAD", at("lib/libstepgate.so")}});
  expect_says("client of C++\n", {built("client_cpp")});
  EXPECT_EQ(content(built("found.txt")), "version " + kSaid + "plugin " + at("lib/libstepgate.so") +
                                             "\ncommand " + at("bin/stepgate") + "\nhostnccl " +
                                             at("lib/hostnccl") + "\n");
}

TEST_F(Consumer, EverythingIsInstalled) {
  for (const char* name : {"lib/libstepgate.so", "lib/libstepgate_core.so", "lib/libstepgate_ucx.so",
                           "lib/hostnccl/libnccl.so.2", "bin/stepgate", "share/doc/stepgate/LICENSE"}) {
    EXPECT_TRUE(fs::exists(at(name))) << name;
  }
  for (const char* name : {"lib/stepgate_tls/libssl.so", "lib/stepgate_tls/libcrypto.so"}) {
    EXPECT_EQ(fs::exists(at(name)), CONSUMER_TEST_TLS != 0)
        << name << ": where there is OpenSSL at build time";
  }
}

TEST_F(Consumer, VersionsAreChecked) {
  const std::string version = STEPGATE_TEST_VERSION;
  for (const std::string& fits : {version, version + " EXACT", std::string("0.1"), std::string("")}) {
    EXPECT_EQ(found(fits), "1") << fits;
  }
  for (const char* other : {"0.2", "0.0", "1.0", "0.1.1", "0.1.0.1 EXACT", "COMPONENTS nothing"}) {
    EXPECT_EQ(found(other), "0") << other;
  }
}

TEST_F(Consumer, PkgConfigCompilesAndLinks) {
  EXPECT_EQ(run({"pkg-config", "--modversion", "stepgate"}, path_of_pkg_config()).out, kSaid);
  expect_says("linked " + kSaid, {by_pkg_config("linked")});
}

TEST_F(Consumer, InstalledCommandRunsAJob) {
  const Outcome o = run_program({at("bin/stepgate"), "run", "-n", "2", "--nccl", "host", "--mode", "enforce",
                                 "--", by_pkg_config("client"), "-"});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_NE(o.out.find("[0] client " + kSaid), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("[1] client " + kSaid), std::string::npos) << o.out;
}

// A moved prefix on another machine must not look into the tree that it was built in.
TEST_F(Consumer, NothingInstalledLooksIntoTheBuildTree) {
  int texts = 0, objects = 0;
  for (const auto& entry : fs::recursive_directory_iterator(prefix())) {
    const std::string name = entry.path().string();
    if (!entry.is_regular_file() || entry.is_symlink()) continue;
    if (name.ends_with(".cmake") || name.ends_with(".pc") || name.ends_with(".h")) {
      EXPECT_EQ(content(name).find(CONSUMER_TEST_BUILD), std::string::npos) << name;
      EXPECT_EQ(content(name).find("/first"), std::string::npos) << name << " names the first prefix";
      ++texts;
    } else if (name.find(".so") != std::string::npos || name.ends_with("bin/stepgate")) {
      const Outcome o = run({"readelf", "-dW", name});
      EXPECT_EQ(o.out.find(CONSUMER_TEST_BUILD), std::string::npos) << name << "\n" << o.out;
      ++objects;
    }
  }
  EXPECT_GE(texts, 7);
  EXPECT_GE(objects, 5);
}

}  // namespace
}  // namespace stepgate::test

// The bundle as somebody uses it who has nothing but glibc: unpacked into a folder of its own, no
// LD_LIBRARY_PATH, and a list of every library that was really loaded.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/integration/process.h"

namespace stepgate::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Variables = std::map<std::string, std::string>;

bool is_glibc(const std::string& file) {
  for (const char* name : {"ld-linux", "libc.so.", "libm.so.", "libdl.so.", "libpthread.so.", "librt.so."}) {
    if (file.starts_with(name)) return true;
  }
  return false;
}

class Bundle : public testing::Test {
 protected:
  void SetUp() override {
#ifdef STEPGATE_BUNDLE_FILE
    const Outcome unpacked = run({"tar", "xzf", STEPGATE_BUNDLE_FILE, "-C", folder_.file("")});
    ASSERT_EQ(unpacked.status, 0) << unpacked.err;
    const std::string name = fs::path(STEPGATE_BUNDLE_FILE).stem().stem().string();
    // Wherever the user puts it.
    root_ = folder_.file("elsewhere");
    fs::rename(folder_.file(name), root_);
#else
    GTEST_SKIP() << "this tree makes no bundle, for patchelf is missing";
#endif
  }

  fs::path at(const std::string& name) const {
    return root_ / name;
  }

  Outcome run_inside(const std::vector<std::string>& words) const {
    return run(words, {{"LD_LIBRARY_PATH", ""},
                       {"LD_PRELOAD", ""},
                       {"LD_DEBUG", "libs"},
                       {"LD_DEBUG_OUTPUT", folder_.file("loaded")}});
  }

  // Every library of every process of run_inside(), by the loader's own account. Links resolved.
  std::set<std::string> loaded() const {
    std::set<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_.file(""))) {
      if (!entry.path().filename().string().starts_with("loaded.")) continue;
      std::ifstream list(entry.path());
      for (std::string line; std::getline(list, line);) {
        const std::string mark = "calling init: ";
        const std::size_t found = line.find(mark);
        if (found == std::string::npos) continue;
        files.insert(fs::weakly_canonical(line.substr(found + mark.size())).string());
      }
    }
    return files;
  }

  void expect_nothing_from_outside() const {
    const std::string inside = fs::canonical(root_).string() + "/";
    for (const std::string& file : loaded()) {
      EXPECT_TRUE(file.starts_with(inside) || is_glibc(fs::path(file).filename().string())) << file;
    }
  }
  void expect_loaded(const std::string& name) const {
    EXPECT_TRUE(loaded().contains((fs::canonical(root_) / name).string())) << name;
  }

 private:
  TemporaryFolder folder_;
  fs::path root_;
};

TEST_F(Bundle, CheckFitsThisMachine) {
  const Outcome o = run_inside({at("bin/stepgate"), "check", "--json"});
  const json all = json::parse(o.out, nullptr, false);
  ASSERT_TRUE(all.is_object()) << o.out << o.err;
  for (const json& line : all.at("checks")) {
    if (line.at("subject") == "plugin" || line.at("subject") == "host nccl") {
      EXPECT_EQ(line.at("state"), "ok") << line;
    }
  }
  EXPECT_EQ(all.at("host_nccl").at("path"), at("lib/hostnccl/libnccl.so.2").string());
}

TEST_F(Bundle, JobOfTwoRanksNeedsNothingFromOutside) {
  const Outcome o = run_inside({at("bin/stepgate"), "run", "-n", "2", "--nccl", "host", "--mode", "enforce",
                                "--", at("bin/charlm"), "--steps", "20", "--hidden", "24", "--batch", "8",
                                "--json", at("report")});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  for (const char* rank : {"report.rank0", "report.rank1"}) {
    std::ifstream file(at(rank));
    const json report = json::parse(file, nullptr, false);
    ASSERT_TRUE(report.is_object()) << rank;
    EXPECT_EQ(report.at("gated"), true) << "the plugin decided the steps";
    EXPECT_EQ(report.at("steps").size(), 20u);
  }
  expect_nothing_from_outside();
  for (const char* name :
       {"lib/libstepgate.so", "lib/libstepgate_core.so", "lib/libstepgate_ucx.so",
        "lib/hostnccl/libnccl.so.2", "lib/libucp.so.0", "lib/ucx/libuct_cma.so.0", "lib/libstdc++.so.6"}) {
    expect_loaded(name);
  }
}

// A page over TLS, whose server asks for OpenSSL under names that are not in the bundle's lib.
TEST_F(Bundle, PageOverTlsNeedsNothingFromOutside) {
  const Outcome made = run({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                            "-nodes", "-subj", "/CN=x", "-keyout", at("page.key"), "-out", at("page.crt")});
  ASSERT_EQ(made.status, 0) << made.err;
  const Outcome o = run_inside({at("bin/stepgate"),
                                "run",
                                "-n",
                                "1",
                                "--nccl",
                                "host",
                                "--mode",
                                "enforce",
                                "--set",
                                "STEPGATE_METRICS_PORT=0",
                                "--set",
                                "STEPGATE_METRICS_TLS_CERTIFICATE=" + at("page.crt").string(),
                                "--set",
                                "STEPGATE_METRICS_TLS_KEY=" + at("page.key").string(),
                                "--",
                                at("bin/charlm"),
                                "--steps",
                                "5",
                                "--hidden",
                                "24",
                                "--batch",
                                "8",
                                "--json",
                                at("report")});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  std::ifstream file(at("report.rank0"));
  const json report = json::parse(file, nullptr, false);
  ASSERT_TRUE(report.is_object());
  EXPECT_TRUE(report.value("metrics", "").starts_with("https://")) << report.value("metrics", "");
  expect_nothing_from_outside();
  for (const char* name :
       {"lib/stepgate_tls/libssl.so", "lib/stepgate_tls/libcrypto.so", "lib/libssl.so.3"}) {
    expect_loaded(name);
  }
}

// The loader would split such a path, and the job would run without the plugin.
TEST_F(Bundle, FolderWithASpaceIsRefused) {
  const fs::path spaced = at("").parent_path().parent_path() / "two words";
  fs::rename(at(""), spaced);
  const Outcome o = run_inside({spaced / "bin/stepgate", "run", "-n", "1", "--nccl", "host", "--", "true"});
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.err.find("two words"), std::string::npos) << o.err;
}

// The public headers are those that the plugin was built with.
TEST_F(Bundle, HeadersOfTheCApi) {
  for (const char* name : {"stepgate.h", "client.h"}) {
    std::ifstream ours(STEPGATE_TEST_SOURCE "/plugin/include/stepgate/" + std::string(name));
    std::ifstream theirs(at("include/stepgate") / name);
    const std::string want{std::istreambuf_iterator<char>(ours), std::istreambuf_iterator<char>()};
    const std::string have{std::istreambuf_iterator<char>(theirs), std::istreambuf_iterator<char>()};
    EXPECT_FALSE(have.empty());
    EXPECT_EQ(have, want) << name;
  }
}

}  // namespace
}  // namespace stepgate::test

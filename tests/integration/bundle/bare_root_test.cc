// The bundle on a machine with glibc alone: a root folder that holds the files of Debian's libc6, the text
// that the example trains on, and the bundle. No shell, no libstdc++, no UCX, no package of ours.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/integration/process.h"

namespace stepgate::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kText[] = "/usr/share/common-licenses/GPL-3";  // of base-files, which every Debian has

class BareRoot : public testing::Test {
 protected:
  void SetUp() override {
#ifdef STEPGATE_BUNDLE_FILE
    // As an ordinary user too, where the kernel lets users have namespaces.
    if (geteuid() != 0) unshare_ = {"unshare", "--user", "--map-root-user", "--mount"};
    const Outcome probe = run(inside({"/bin/true"}, "/"));
    if (probe.status != 0) GTEST_SKIP() << "no namespace and chroot for this user: " << probe.err;
    ASSERT_GT(copy_libc(), 10);
    copy(kText);
    for (const char* name : {"proc", "dev", "tmp"}) fs::create_directory(root() / name);
    fs::create_directories(root() / "opt");
    const Outcome unpacked = run({"tar", "xzf", STEPGATE_BUNDLE_FILE, "-C", (root() / "opt").string()});
    ASSERT_EQ(unpacked.status, 0) << unpacked.err;
    fs::rename(root() / "opt" / fs::path(STEPGATE_BUNDLE_FILE).stem().stem(), root() / "opt/stepgate");
#else
    GTEST_SKIP() << "this tree makes no bundle, for patchelf is missing";
#endif
  }

  fs::path root() const {
    return folder_.file("root");
  }

  void copy(const fs::path& file) const {
    const fs::path to = root() / file.relative_path();
    fs::create_directories(to.parent_path());
    fs::copy_file(file, to, fs::copy_options::skip_existing);
  }

  // The loader and the libraries of the package libc6, as it lists them. How many.
  int copy_libc() const {
    int copied = 0;
    for (const std::string& file : lines_of(run({"dpkg", "-L", "libc6"}).out)) {
      const bool library = file.find(".so") != std::string::npos && file.find("/gconv/") == std::string::npos;
      if (!library || !fs::is_regular_file(file)) continue;
      copy(file);
      ++copied;
    }
    return copied;
  }

  // Words as they run in a root of their own, with this machine's /proc and /dev.
  std::vector<std::string> inside(const std::vector<std::string>& words, const std::string& root) const {
    const std::string script =
        "mount --rbind /proc $0/proc && mount --rbind /dev $0/dev && exec chroot $0 \"$@\"";
    std::vector<std::string> all = unshare_;
    all.insert(all.end(), {"sh", "-c", script, root});
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  Outcome run_inside(std::vector<std::string> words) const {
    words.insert(words.begin(), {"/opt/stepgate/bin/stepgate"});
    return run(inside(words, root().string()),
               {{"LD_LIBRARY_PATH", ""}, {"LD_PRELOAD", ""}, {"TMPDIR", "/tmp"}});
  }

 private:
  TemporaryFolder folder_;
  std::vector<std::string> unshare_ = {"unshare", "--mount"};
};

TEST_F(BareRoot, HoldsNothingButLibcAndTheBundle) {
  for (const auto& entry : fs::recursive_directory_iterator(root())) {
    const std::string name = fs::relative(entry.path(), root()).string();
    if (entry.is_directory() || name.starts_with("opt/stepgate/")) continue;
    EXPECT_TRUE(name == fs::path(kText).relative_path() || name.starts_with("lib/x86_64-linux-gnu/") ||
                name.starts_with("lib64/ld-linux") || name.starts_with("etc/ld.so.conf.d/"))
        << name;
    for (const char* package : {"libstdc++", "libgcc_s", "libuc", "libabsl", "prometheus", "libhwy"}) {
      EXPECT_EQ(name.find(package), std::string::npos) << name;
    }
  }
}

TEST_F(BareRoot, CheckFindsThePlugin) {
  const Outcome o = run_inside({"check", "--json"});
  const json all = json::parse(o.out, nullptr, false);
  ASSERT_TRUE(all.is_object()) << o.out << o.err;
  EXPECT_EQ(all.at("host_nccl").at("path"), "/opt/stepgate/lib/hostnccl/libnccl.so.2");
}

TEST_F(BareRoot, GatedJobOfTwoRanks) {
  const Outcome o =
      run_inside({"run", "-n", "2", "--nccl", "host", "--mode", "enforce", "--", "/opt/stepgate/bin/charlm",
                  "--steps", "20", "--hidden", "24", "--batch", "8", "--json", "/tmp/report"});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  for (const char* rank : {"tmp/report.rank0", "tmp/report.rank1"}) {
    std::ifstream file(root() / rank);
    const json report = json::parse(file, nullptr, false);
    ASSERT_TRUE(report.is_object()) << rank << o.out << o.err;
    EXPECT_EQ(report.at("gated"), true) << "the plugin decided the steps";
    EXPECT_EQ(report.at("steps").size(), 20u);
  }
}

// The test would see a library that the bundle forgot.
TEST_F(BareRoot, AMissingLibraryShows) {
  fs::remove(root() / "opt/stepgate/lib/libucs.so.0");
  EXPECT_NE(run_inside({"run", "-n", "2", "--nccl", "host", "--", "/opt/stepgate/bin/charlm", "--steps", "2"})
                .status,
            0);
}

}  // namespace
}  // namespace stepgate::test

// What the built shared objects export and what they are linked to: docs/architecture.md's table.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/repo/source_tree.h"

namespace stepgate::repo {
namespace {

using Names = std::vector<std::string>;

bool is_loader_or_libc(const std::string& n) {
  return n == "libc.so.6" || n.starts_with("ld-linux");
}

// Names that the dynamic linker can find in `file`, without symbol versions.
[[maybe_unused]] Names exported_symbols(const std::string& file) {
  Names names;
  for (const std::string& line : split_lines(run_command("nm -D --defined-only '" + file + "'"))) {
    const Names words = split_words(line);
    if (words.size() != 3 || words[1] == "A") continue;  // A: a version node itself
    names.push_back(words[2].substr(0, words[2].find('@')));
  }
  return names;
}

Names needed_objects(const std::string& file) {
  Names names;
  for (const std::string& line : split_lines(run_command("readelf -dW '" + file + "'"))) {
    const std::size_t open = line.find('[');
    if (line.find("(NEEDED)") == std::string::npos || open == std::string::npos) continue;
    names.push_back(line.substr(open + 1, line.find(']') - open - 1));
  }
  return names;
}

Names leftover(const Names& names, const std::function<bool(const std::string&)>& allowed) {
  Names rest;
  for (const std::string& name : names) {
    if (!allowed(name)) rest.push_back(name);
  }
  return rest;
}

void expect_only(const Names& names, const std::function<bool(const std::string&)>& allowed,
                 const std::string& what) {
  EXPECT_FALSE(names.empty()) << what << ": found none at all";
  const Names rest = leftover(names, allowed);
  EXPECT_TRUE(rest.empty()) << what << " must not be there:" << joined(rest);
}

// NCCL, CUDA and UCX are opened at run time, by whoever needs them, or not at all.
bool is_opened_never_linked(const std::string& n) {
  for (const char* prefix : {"libnccl", "libcuda", "libucp", "libucs", "libuct", "libucm", "libstepgate"}) {
    if (n.starts_with(prefix)) return true;
  }
  return false;
}

[[maybe_unused]] void expect_not_linked(const std::string& file) {
  expect_only(
      needed_objects(file), [](const std::string& n) { return !is_opened_never_linked(n); },
      file + ": DT_NEEDED");
}

TEST(Objects, ToolsSeeThisVeryProgram) {
  const Names needed = needed_objects(std::filesystem::read_symlink("/proc/self/exe").string());
  EXPECT_FALSE(leftover(needed, is_loader_or_libc).empty()) << "a C++ program needs libstdc++";
  EXPECT_TRUE(is_opened_never_linked("libcudart.so.13") && is_opened_never_linked("libnccl.so.2"));
}

#ifdef STEPGATE_SHIM_FILE
// By name: a hook that is gone, or one more, has to be meant. What carries, writes or ends something, or
// says when that happens; what only asks stays NCCL's own.
const std::set<std::string> kHooks = {"ncclAllGather",
                                      "ncclAllReduce",
                                      "ncclAlltoAll",
                                      "ncclBcast",
                                      "ncclBroadcast",
                                      "ncclCommAbort",
                                      "ncclCommDestroy",
                                      "ncclCommFinalize",
                                      "ncclCommGetAsyncError",
                                      "ncclCommInitAll",
                                      "ncclCommInitRank",
                                      "ncclCommInitRankConfig",
                                      "ncclCommInitRankScalable",
                                      "ncclCommRevoke",
                                      "ncclCommShrink",
                                      "ncclCommSplit",
                                      "ncclGather",
                                      "ncclGroupEnd",
                                      "ncclGroupSimulateEnd",
                                      "ncclGroupStart",
                                      "ncclRecv",
                                      "ncclRedOpCreatePreMulSum",
                                      "ncclRedOpDestroy",
                                      "ncclReduce",
                                      "ncclReduceScatter",
                                      "ncclScatter",
                                      "ncclSend"};

TEST(Objects, ShimExportsHooksAndTheCApiOnly) {
  std::set<std::string> hooks;
  for (const std::string& name : exported_symbols(STEPGATE_SHIM_FILE)) {
    if (!name.starts_with("stepgate_")) hooks.insert(name);
  }
  EXPECT_EQ(hooks, kHooks);
}

TEST(Objects, ShimNeedsLibcAndTheLoaderOnly) {
  expect_only(needed_objects(STEPGATE_SHIM_FILE), is_loader_or_libc, "DT_NEEDED of the shim");
}

// Every function of the public header is there: a caller that links finds each of them.
TEST(Objects, ShimExportsEveryFunctionOfThePublicHeader) {
  const Names names = exported_symbols(STEPGATE_SHIM_FILE);
  const std::set<std::string> exported(names.begin(), names.end());
  int declared = 0;
  for (const std::string& line : read_file(source_root(), "plugin/include/stepgate/stepgate.h").lines) {
    const std::size_t open = line.find('(');
    if (!line.starts_with("STEPGATE_API ") || open == std::string::npos) continue;
    const std::size_t begin = line.find_last_of(" *", open) + 1;
    ++declared;
    EXPECT_TRUE(exported.contains(line.substr(begin, open - begin))) << line;
  }
  EXPECT_GT(declared, 30);
}
#endif

#ifdef STEPGATE_CORE_FILE
TEST(Objects, CoreExportsItsEntryOnly) {
  const Names names = exported_symbols(STEPGATE_CORE_FILE);
  ASSERT_EQ(names.size(), 1u) << joined(names);
  EXPECT_TRUE(names[0].starts_with("stepgate_core")) << names[0];
}

TEST(Objects, CoreIsLinkedToNoGpuAndNoTransport) {
  expect_not_linked(STEPGATE_CORE_FILE);
}
#endif

#ifdef STEPGATE_UCX_FILE
TEST(Objects, UcxExportsItsTableOnly) {
  EXPECT_EQ(exported_symbols(STEPGATE_UCX_FILE), Names{"stepgate_ucx_table"});
}

TEST(Objects, UcxIsLinkedToUcxAndNoGpu) {
  const Names needed = needed_objects(STEPGATE_UCX_FILE);
  const auto allowed = [](const std::string& n) {
    return n.starts_with("libuc") || !is_opened_never_linked(n);
  };
  expect_only(needed, allowed, "DT_NEEDED of the transport");
}
#endif

#ifdef STEPGATE_HOSTNCCL_FILE
TEST(Objects, HostNcclExportsNcclOnly) {
  const auto allowed = [](const std::string& n) { return n.starts_with("nccl") || n.starts_with("pnccl"); };
  expect_only(exported_symbols(STEPGATE_HOSTNCCL_FILE), allowed, "exports of hostnccl");
}

TEST(Objects, HostNcclNeedsNoTransportAtLoadTime) {
  expect_not_linked(STEPGATE_HOSTNCCL_FILE);
}

// It stands in a folder of its own, so that it never shadows a real NCCL.
TEST(Objects, HostNcclStandsAlone) {
  const std::filesystem::path file = STEPGATE_HOSTNCCL_FILE;
  EXPECT_EQ(file.filename(), "libnccl.so.2");
  EXPECT_EQ(file.parent_path().filename(), "hostnccl") << file;
}
#endif

#ifdef STEPGATE_TLS_SSL_FILE
std::string soname(const std::string& file) {
  const std::string text = run_command("readelf -dW '" + file + "'");
  const std::size_t open = text.find('[', text.find("(SONAME)"));
  return text.substr(open + 1, text.find(']', open) - open - 1);
}

// The HTTP server opens them by these names, and none may be found by anybody else who searches lib/.
TEST(Objects, TlsLibrariesStandForOpenSsl) {
  for (const auto& [file, name, real] :
       {std::tuple{STEPGATE_TLS_SSL_FILE, "libssl.so", "libssl.so.3"},
        std::tuple{STEPGATE_TLS_CRYPTO_FILE, "libcrypto.so", "libcrypto.so.3"}}) {
    EXPECT_EQ(soname(file), name);
    EXPECT_EQ(std::filesystem::path(file).parent_path().filename(), "stepgate_tls") << file;
    const Names needed = needed_objects(file);
    EXPECT_TRUE(std::set<std::string>(needed.begin(), needed.end()).contains(real)) << file << joined(needed);
    expect_not_linked(file);
  }
  const Names exported = exported_symbols(STEPGATE_TLS_SSL_FILE);
  EXPECT_EQ(std::set<std::string>(exported.begin(), exported.end()),
            (std::set<std::string>{"SSL_get_peer_certificate", "stepgate_tls_close", "stepgate_tls_open"}));
  EXPECT_EQ(exported_symbols(STEPGATE_TLS_CRYPTO_FILE), Names{"stepgate_tls_crypto"});
}
#endif

}  // namespace
}  // namespace stepgate::repo

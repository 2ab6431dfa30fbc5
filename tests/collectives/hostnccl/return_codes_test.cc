// The table in collectives/hostnccl/RETURN_CODES.md, row by row, and the names that are exported against
// NVIDIA's header.
#include "tests/collectives/hostnccl/return_codes.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "tests/collectives/hostnccl/lifecycle.h"

namespace stepgate::hostnccl::test {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

const char* kTable = "collectives/hostnccl/RETURN_CODES.md";

std::string trimmed(const std::string& cell) {
  const auto begin = cell.find_first_not_of(' ');
  return begin == std::string::npos ? "" : cell.substr(begin, cell.find_last_not_of(' ') - begin + 1);
}

struct Row {
  std::string code;
  std::string source;
};

std::map<ReturnCase, Row> documented() {
  std::map<ReturnCase, Row> rows;
  std::istringstream lines(text_of(kTable));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("| nccl", 0) != 0) continue;
    std::vector<std::string> cells;
    std::istringstream parts(line.substr(1));
    for (std::string cell; std::getline(parts, cell, '|');) cells.push_back(trimmed(cell));
    EXPECT_EQ(cells.size(), 4u) << line;
    if (cells.size() != 4) continue;
    EXPECT_TRUE(rows.emplace(ReturnCase{cells[0], cells[1]}, Row{cells[2], cells[3]}).second)
        << "twice: " << line;
  }
  return rows;
}

std::string name_of(ncclResult_t code) {
  constexpr const char* kNames[] = {"ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
                                    "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
                                    "ncclRemoteError",   "ncclInProgress"};
  return code < ncclNumResults ? kNames[code] : std::to_string(code);
}

// What a case leaves behind in comm is ended. By reference: the call that writes it is the other argument.
ncclResult_t ended(ncclResult_t result, const ncclComm_t& comm) {
  if (comm == nullptr) return result;
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << failure();
  return result;
}

ncclResult_t init(int size, int rank) {
  ncclComm_t comm = nullptr;
  return ended(ncclCommInitRank(&comm, size, new_id(), rank), comm);
}

ncclResult_t init_with(ncclConfig_t* config) {
  ncclComm_t comm = nullptr;
  return ended(ncclCommInitRankConfig(&comm, 1, new_id(), 0, config), comm);
}

ncclConfig_t without_magic() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  return config;
}

ncclConfig_t blocking_of(int blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking;
  return config;
}

ncclResult_t scalable(int ids, bool null) {
  ncclUniqueId id[2] = {new_id(), {}};
  ncclComm_t comm = nullptr;
  return ended(ncclCommInitRankScalable(&comm, 1, 0, ids, null ? nullptr : id, nullptr), comm);
}

ncclResult_t all_on(std::vector<int> devices) {
  std::vector<ncclComm_t> comms(devices.size() + 1, nullptr);
  const auto result = ncclCommInitAll(comms.data(), static_cast<int>(devices.size()), devices.data());
  return ended(result, comms[0]);
}

ncclResult_t sum(ncclComm_t comm) {
  float value = 1;
  return ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
}

ncclResult_t split(ncclComm_t comm, int color, ncclConfig_t* config = nullptr) {
  ncclComm_t child = nullptr;
  return ended(ncclCommSplit(comm, color, 0, &child, config), child);
}

ncclResult_t shrink(ncclComm_t comm, int excluded, int count = 1) {
  ncclComm_t child = nullptr;
  return ended(ncclCommShrink(comm, &excluded, count, &child, nullptr, 0), child);
}

ncclResult_t bad_group(bool simulated) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  info.magic = 0;
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  if (simulated) return ncclGroupSimulateEnd(&info);
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, {}, 0), ncclInvalidArgument);
  return ncclGroupEnd();
}

// By name: their types are NVIDIA's. No argument is looked at, so a call without any is as good.
ncclResult_t refused(const char* name) {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  void* function = library != nullptr ? dlsym(library, name) : nullptr;
  EXPECT_NE(function, nullptr) << name;
  if (function == nullptr) return ncclSuccess;
  const ncclResult_t result = reinterpret_cast<ncclResult_t (*)()>(function)();
  EXPECT_NE(failure().find(name), std::string::npos) << failure();
  dlclose(library);
  return result;
}

std::vector<ReturnTest> creations() {
  return {
      {{"ncclGetVersion", "version is NULL"}, [] { return ncclGetVersion(nullptr); }},
      {{"ncclGetUniqueId", "uniqueId is NULL"}, [] { return ncclGetUniqueId(nullptr); }},
      {{"ncclCommInitRank", "comm is NULL"}, [] { return ncclCommInitRank(nullptr, 1, {}, 0); }},
      {{"ncclCommInitRank", "nranks 0"}, [] { return init(0, 0); }},
      {{"ncclCommInitRank", "rank -1"}, [] { return init(2, -1); }},
      {{"ncclCommInitRank", "rank is nranks"}, [] { return init(2, 2); }},
      {{"ncclCommInitRank", "an id a second time"},
       [] {
         const ncclUniqueId id = new_id();
         ncclComm_t comm = nullptr;
         EXPECT_EQ(ended(ncclCommInitRank(&comm, 1, id, 0), comm), ncclSuccess);
         return ncclCommInitRank(&comm, 1, id, 0);
       }},
      {{"ncclCommInitRankConfig", "config is NULL"}, [] { return init_with(nullptr); }},
      {{"ncclCommInitRankConfig", "config without its magic"},
       [] {
         ncclConfig_t config = without_magic();
         return init_with(&config);
       }},
      {{"ncclCommInitRankConfig", "blocking 2"},
       [] {
         ncclConfig_t config = blocking_of(2);
         return init_with(&config);
       }},
      {{"ncclCommInitRankConfig", "blocking 0"},
       [] {
         ncclConfig_t config = blocking_of(0);
         return init_with(&config);
       }},
      {{"ncclCommInitRankScalable", "nId 0"}, [] { return scalable(0, false); }},
      {{"ncclCommInitRankScalable", "nId above nranks"}, [] { return scalable(2, false); }},
      {{"ncclCommInitRankScalable", "commIds is NULL"}, [] { return scalable(1, true); }},
      {{"ncclCommInitAll", "comms is NULL"}, [] { return ncclCommInitAll(nullptr, 1, nullptr); }},
      {{"ncclCommInitAll", "ndev -1"},
       [] {
         ncclComm_t comm = nullptr;
         return ncclCommInitAll(&comm, -1, nullptr);
       }},
      {{"ncclCommInitAll", "a device twice"},
       [] {
         return all_on({0, 0});
       }},
      {{"ncclCommInitAll", "a device that is not there"}, [] { return all_on({1}); }},
      {{"ncclCommInitAll", "one rank"}, [] { return all_on({0}); }},
  };
}

std::vector<ReturnTest> ends() {
  return {
      {{"ncclCommFinalize", "comm is NULL"}, [] { return ncclCommFinalize(nullptr); }},
      {{"ncclCommFinalize", "a second time"}, [] { return ncclCommFinalize(One().finalized()); }},
      {{"ncclCommFinalize", "after ncclCommRevoke"}, [] { return ncclCommFinalize(One().revoked()); }},
      {{"ncclCommDestroy", "comm is NULL"}, [] { return ncclCommDestroy(nullptr); }},
      {{"ncclCommDestroy", "destroyed already"}, [] { return ncclCommDestroy(One().destroyed()); }},
      {{"ncclCommAbort", "comm is NULL"}, [] { return ncclCommAbort(nullptr); }},
      {{"ncclCommAbort", "destroyed already"}, [] { return ncclCommAbort(One().destroyed()); }},
      {{"ncclCommRevoke", "comm is NULL"}, [] { return ncclCommRevoke(nullptr, 0); }},
      {{"ncclCommRevoke", "revokeFlags 1"}, [] { return ncclCommRevoke(One().get(), 1); }},
      {{"ncclCommRevoke", "a second time"}, [] { return ncclCommRevoke(One().revoked(), 0); }},
      {{"ncclCommRevoke", "after ncclCommFinalize"}, [] { return ncclCommRevoke(One().finalized(), 0); }},
      {{"ncclAllReduce", "after ncclCommRevoke"}, [] { return sum(One().revoked()); }},
      {{"ncclAllReduce", "after ncclCommFinalize"}, [] { return sum(One().finalized()); }},
      {{"ncclGroupEnd", "without ncclGroupStart"}, [] { return ncclGroupEnd(); }},
      {{"ncclGroupEnd", "behind a call that was refused"}, [] { return bad_group(false); }},
      {{"ncclGroupSimulateEnd", "simInfo without its magic"}, [] { return bad_group(true); }},
  };
}

std::vector<ReturnTest> children() {
  return {
      {{"ncclCommSplit", "comm is NULL"}, [] { return split(nullptr, 0); }},
      {{"ncclCommSplit", "newcomm is NULL"},
       [] { return ncclCommSplit(One().get(), 0, 0, nullptr, nullptr); }},
      {{"ncclCommSplit", "NCCL_SPLIT_NOCOLOR"}, [] { return split(One().get(), NCCL_SPLIT_NOCOLOR); }},
      {{"ncclCommSplit", "config without its magic"},
       [] {
         ncclConfig_t config = without_magic();
         return split(One().get(), 0, &config);
       }},
      {{"ncclCommSplit", "after ncclCommRevoke"}, [] { return split(One().revoked(), 0); }},
      {{"ncclCommSplit", "after ncclCommFinalize"}, [] { return split(One().finalized(), 0); }},
      {{"ncclCommShrink", "comm is NULL"}, [] { return shrink(nullptr, 1); }},
      {{"ncclCommShrink", "newcomm is NULL"},
       [] {
         int gone = 1;
         return ncclCommShrink(One().get(), &gone, 1, nullptr, nullptr, 0);
       }},
      {{"ncclCommShrink", "excludeRanksList is NULL"},
       [] {
         ncclComm_t child = nullptr;
         return ncclCommShrink(One().get(), nullptr, 1, &child, nullptr, 0);
       }},
      {{"ncclCommShrink", "excludeRanksCount 0"}, [] { return shrink(One().get(), 1, 0); }},
      {{"ncclCommShrink", "the list names the caller"}, [] { return shrink(One().get(), 0); }},
      {{"ncclCommShrink", "the list names no rank of it"}, [] { return shrink(One().get(), 1); }},
  };
}

std::vector<ReturnTest> questions() {
  static int number = 0;
  static ncclResult_t state = ncclSuccess;
  return {
      {{"ncclCommCount", "comm is NULL"}, [] { return ncclCommCount(nullptr, &number); }},
      {{"ncclCommCount", "count is NULL"}, [] { return ncclCommCount(One().get(), nullptr); }},
      {{"ncclCommCount", "after ncclCommRevoke"}, [] { return ncclCommCount(One().revoked(), &number); }},
      {{"ncclCommCuDevice", "device is NULL"}, [] { return ncclCommCuDevice(One().get(), nullptr); }},
      {{"ncclCommUserRank", "rank is NULL"}, [] { return ncclCommUserRank(One().get(), nullptr); }},
      {{"ncclCommGetAsyncError", "comm is NULL"}, [] { return ncclCommGetAsyncError(nullptr, &state); }},
      {{"ncclCommGetAsyncError", "asyncError is NULL"},
       [] { return ncclCommGetAsyncError(One().get(), nullptr); }},
  };
}

std::vector<ReturnTest> memory() {
  static void* handle = nullptr;
  static int number = 0;
  return {
      {{"ncclCommRegister", "comm is NULL"},
       [] { return ncclCommRegister(nullptr, &number, sizeof number, &handle); }},
      {{"ncclCommRegister", "handle is NULL"},
       [] { return ncclCommRegister(One().get(), &number, sizeof number, nullptr); }},
      {{"ncclCommDeregister", "handle is NULL"}, [] { return ncclCommDeregister(One().get(), nullptr); }},
      {{"ncclCommDeregister", "a handle that is none"},
       [] { return ncclCommDeregister(One().get(), &number); }},
      {{"ncclCommWindowRegister", "buff is NULL"},
       [] {
         ncclWindow_t window = nullptr;
         return ncclCommWindowRegister(One().get(), nullptr, 1, &window, 0);
       }},
      {{"ncclCommWindowDeregister", "win is NULL"},
       [] { return ncclCommWindowDeregister(One().get(), nullptr); }},
      {{"ncclMemAlloc", "ptr is NULL"}, [] { return ncclMemAlloc(nullptr, 1); }},
      {{"ncclMemAlloc", "size 0"}, [] { return ncclMemAlloc(&handle, 0); }},
      {{"ncclMemFree", "ptr is NULL"}, [] { return ncclMemFree(nullptr); }},
      {{"ncclMemFree", "ptr is not allocated"}, [] { return ncclMemFree(&number); }},
  };
}

std::vector<ReturnTest> device_functions() {
  std::vector<ReturnTest> tests;
  for (const char* name : {"ncclDevCommCreate", "ncclDevCommDestroy", "ncclLsaBarrierCreateRequirement",
                           "ncclGinBarrierCreateRequirement", "ncclLLA2ACreateRequirement"}) {
    tests.push_back({{name, "any"}, [name] { return refused(name); }});
  }
  return tests;
}

std::vector<ReturnTest> all_tests() {
  std::vector<ReturnTest> all;
  for (const auto& part : {creations(), ends(), children(), questions(), memory(), device_functions(),
                           collective_return_codes()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(ReturnCodes, EveryRowHoldsAndEveryTestHasOne) {
  std::map<ReturnCase, Row> rows = documented();
  for (const auto& [what, call] : all_tests()) {
    SCOPED_TRACE(what.first + ", " + what.second);
    const auto row = rows.find(what);
    ASSERT_NE(row, rows.end()) << "not in the table";
    const ncclResult_t code = call();
    EXPECT_EQ(name_of(code), row->second.code) << failure();
    const bool named = row->second.source.rfind("src/", 0) == 0 || row->second.source.rfind("nccl.h", 0) == 0;
    EXPECT_TRUE(named || row->second.source.rfind("own: ", 0) == 0) << row->second.source;
    rows.erase(row);
  }
  for (const auto& [what, row] : rows) ADD_FAILURE() << "nothing tests " << what.first << ", " << what.second;
}

// "pncclName(" in nccl.h, "__host__ ... ncclName(" in the device headers.
std::set<std::string> names_behind(const std::string& text, const std::string& mark) {
  std::set<std::string> names;
  for (std::size_t begin = text.find(mark); begin != std::string::npos; begin = text.find(mark, begin + 1)) {
    const std::size_t name = text.find("nccl", text.find_last_of(" \n", text.find('(', begin)));
    names.insert(text.substr(name, text.find('(', begin) - name));
  }
  return names;
}

std::set<std::string> absent_names() {
  const std::string text = text_of(kTable);
  std::set<std::string> names;
  std::istringstream words(text.substr(text.find("## Not here")));
  for (std::string word; words >> word;) {
    if (word.rfind("nccl", 0) != 0 || word.find("Result") != std::string::npos) continue;
    if (word.back() == ',') word.pop_back();
    names.insert(word);
  }
  return names;
}

#if defined(STEPGATE_NVIDIA_NCCL_H)
std::set<std::string> nvidia_names() {
  const std::string path = STEPGATE_NVIDIA_NCCL_H;
  std::set<std::string> names = names_behind(text_of(path), " pnccl");
  for (const char* part : {"core.h", "gin_barrier.h", "ll_a2a.h", "lsa_barrier.h"}) {
    const std::string folder = path.substr(0, path.rfind('.')) + "_device/";
    names.merge(names_behind(text_of(folder + part), "NCCL_EXTERN_C __host__"));
  }
  return names;
}
#endif

TEST(Exports, EveryFunctionOfNvidiasHeaderIsHereOrListed) {
#if defined(STEPGATE_NVIDIA_NCCL_H)
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr) << dlerror();
  const std::set<std::string> absent = absent_names();
  EXPECT_EQ(absent.size(), 6u);
  const std::set<std::string> names = nvidia_names();
  EXPECT_EQ(names.size(), 52u);
  for (const std::string& name : names) {
    const bool here = dlsym(library, name.c_str()) != nullptr;
    EXPECT_EQ(here, dlsym(library, ("p" + name).c_str()) != nullptr) << name << " has a twin";
    EXPECT_NE(here, absent.count(name) != 0)
        << name << (here ? " is here and listed as absent" : " is missing");
  }
  for (const std::string& name : absent) EXPECT_EQ(names.count(name), 1u) << name;
  dlclose(library);
#else
  GTEST_SKIP() << "this machine has no nccl.h of 2.28.9 with its device headers";
#endif
}

}  // namespace
}  // namespace stepgate::hostnccl::test

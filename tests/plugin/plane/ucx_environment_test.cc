// UCX is loaded only where its environment was made safe before.
#include <gtest/gtest.h>

#include <map>

#include "plugin/core/plane/transport_file.h"

namespace stepgate::plane {
namespace {

using Variables = std::map<std::string, std::string>;

std::string complaint(const Variables& variables) {
  return unsafe_ucx_environment([&](const char* name) {
    const auto it = variables.find(name);
    return it != variables.end() ? it->second.c_str() : nullptr;
  });
}

const Variables kSafe = {{"UCX_ERROR_SIGNALS", ""},
                         {"UCX_DEBUG_SIGNO", "0"},
                         {"UCX_HANDLE_ERRORS", "none"},
                         {"UCX_MEM_EVENTS", "n"}};

TEST(UcxEnvironment, SafeAsTheLauncherLeavesIt) {
  EXPECT_EQ(complaint(kSafe), "");
}

TEST(UcxEnvironment, EachVariableMatters) {
  for (const auto& [name, value] : kSafe) {
    Variables v = kSafe;
    v.erase(name);
    EXPECT_NE(complaint(v).find("export " + name + "=" + value + ","), std::string::npos) << complaint(v);
    v[name] = "something else";
    EXPECT_NE(complaint(v), "") << name;
  }
}

// Its MPI may be on UCX, and needs the events.
TEST(UcxEnvironment, MemoryEventsAreTheMpisOwnWhereOneStartedTheRank) {
  for (const char* rank : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    Variables v = kSafe;
    v[rank] = "0";
    v.erase("UCX_MEM_EVENTS");
    EXPECT_EQ(complaint(v), "") << rank;
    v.erase("UCX_ERROR_SIGNALS");
    EXPECT_NE(complaint(v).find("export UCX_ERROR_SIGNALS=,"), std::string::npos) << complaint(v);
  }
}

}  // namespace
}  // namespace stepgate::plane

// Names that begin with STEPGATE_ and that nothing reads.
#include "plugin/core/config_names.h"

#include <gtest/gtest.h>

#include "plugin/core/config_table.h"

namespace stepgate::gate {
namespace {

TEST(ConfigNames, EveryRowIsKnownAndItsMisspellingsLeadBack) {
  for (const ConfigEntry& e : config_table()) {
    const std::string name = e.name;
    EXPECT_EQ(nearest_known_name(name), "");
    if (!name.starts_with("STEPGATE_")) continue;
    EXPECT_EQ(nearest_known_name(name + "Q"), name);
    EXPECT_EQ(nearest_known_name(name.substr(0, 10) + "Q" + name.substr(10)), name);
  }
  EXPECT_EQ(nearest_known_name("STEPGATE_MAXNORM"), "STEPGATE_MAX_NORM");
  EXPECT_EQ(nearest_known_name("STEPGATE_HOSTNCCL_TIMOUT"), "STEPGATE_HOSTNCCL_TIMEOUT");
}

TEST(ConfigNames, NamesOfOthersAreNobodysMistake) {
  for (const char* name :
       {"PATH", "RANKS", "STEPGATE", "XSTEPGATE_MODE", "STEPGATE_TEST_SEED", "STEPGATE_STANDIN_DEVICES",
        "STEPGATE_SKIP_INSTALL", "STEPGATE_HOSTNCCL_TRANSPORT"}) {
    EXPECT_EQ(nearest_known_name(name), "") << name;
  }
  EXPECT_TRUE(is_hostnccl_name("STEPGATE_HOSTNCCL_TIMEOUT"));
  EXPECT_FALSE(is_hostnccl_name("STEPGATE_LOG"));
}

TEST(ConfigNames, UnknownVariablesAreToldInOrder) {
  const std::vector<std::string> told =
      unknown_variables({"PATH=/bin", "STEPGATE_RULES=torch", "STEPGATE_MODE=off", "STEPGATE_METRICS_PROT=1",
                         "STEPGATE_NOVALUE"});
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0],
            "nothing reads STEPGATE_METRICS_PROT of the environment; the nearest known name is "
            "STEPGATE_METRICS_PORT");
  EXPECT_NE(told[1].find("STEPGATE_NOVALUE"), std::string::npos);
  EXPECT_NE(told[2].find("nearest known name is STEPGATE_RULE"), std::string::npos);
  EXPECT_EQ(told[2].find("torch"), std::string::npos) << "values may be secrets";
}

TEST(ConfigNames, WhatKubernetesExportsForAServiceIsPassedOver) {
  EXPECT_TRUE(
      unknown_variables({"STEPGATE_SERVICE_HOST=10.0.0.1", "STEPGATE_SERVICE_PORT=80",
                         "STEPGATE_SERVICE_PORT_HTTP=80", "STEPGATE_PORT=tcp://10.0.0.1:80",
                         "STEPGATE_PORT_80_TCP=tcp://10.0.0.1:80", "STEPGATE_PORT_80_TCP_PROTO=tcp",
                         "STEPGATE_PORT_53_UDP_ADDR=10.0.0.1", "STEPGATE_METRICS_SERVICE_HOST=10.0.0.1"})
          .empty());
  EXPECT_EQ(unknown_variables({"STEPGATE_PORT=80"}).size(), 1u);
}

}  // namespace
}  // namespace stepgate::gate

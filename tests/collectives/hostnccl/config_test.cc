#include "collectives/hostnccl/config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace stepgate::hostnccl {
namespace {

const char* nothing(const char*) {
  return nullptr;
}

TEST(Config, DefaultsWhereNothingIsSet) {
  Config config;
  ASSERT_TRUE(read_config(nothing, &config).ok());
  EXPECT_EQ(config.timeout_seconds, 600);
  EXPECT_EQ(config.transport, "auto");
  EXPECT_EQ(config.launch_delay_us, 0U);
  EXPECT_TRUE(config.blocking);
}

TEST(Config, ReadsAllNames) {
  Config config;
  const Lookup lookup = [](const char* name) {
    return std::strcmp(name, "STEPGATE_HOSTNCCL_TIMEOUT") == 0           ? "2.5"
           : std::strcmp(name, "STEPGATE_HOSTNCCL_TRANSPORT") == 0       ? "tcp"
           : std::strcmp(name, "STEPGATE_HOSTNCCL_LAUNCH_DELAY_US") == 0 ? "10000000"
                                                                         : nullptr;
  };
  ASSERT_TRUE(read_config(lookup, &config).ok());
  EXPECT_EQ(config.timeout_seconds, 2.5);
  EXPECT_EQ(config.transport, "tcp");
  EXPECT_EQ(config.launch_delay_us, 10'000'000U);
}

struct Refusal {
  const char* name;
  const char* value;
  const char* allowed;
};

void PrintTo(const Refusal& row, std::ostream* out) {
  *out << row.name << '=' << row.value;
}

class ConfigRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(ConfigRefuses, NamesVariableValueAndRange) {
  const Refusal& row = GetParam();
  ASSERT_EQ(setenv(row.name, row.value, 1), 0);
  Config config;
  const Outcome outcome = read_config_from_environment(&config);
  unsetenv(row.name);
  EXPECT_EQ(outcome.code, ncclInvalidUsage);
  for (const std::string& part :
       {std::string(row.name), "'" + std::string(row.value) + "'", std::string(row.allowed)}) {
    EXPECT_NE(outcome.message.find(part), std::string::npos) << outcome.message;
  }
  EXPECT_EQ(config.timeout_seconds, 600) << "a refused environment must leave the settings alone";
}

constexpr const char* kTimeout = "STEPGATE_HOSTNCCL_TIMEOUT";
constexpr const char* kTransport = "STEPGATE_HOSTNCCL_TRANSPORT";
constexpr const char* kDelay = "STEPGATE_HOSTNCCL_LAUNCH_DELAY_US";
constexpr Refusal kRefusals[] = {
    {kTimeout, "", "0.001 to 604800"},       {kTimeout, "soon", "0.001 to 604800"},
    {kTimeout, "0", "0.001 to 604800"},      {kTimeout, "-1", "0.001 to 604800"},
    {kTimeout, "nan", "0.001 to 604800"},    {kTimeout, "inf", "0.001 to 604800"},
    {kTimeout, "10s", "0.001 to 604800"},    {kTimeout, "604801", "0.001 to 604800"},
    {kTimeout, "1,5", "0.001 to 604800"},    {kTransport, "", "auto, tcp or shm"},
    {kTransport, "TCP", "auto, tcp or shm"}, {kTransport, "ib", "auto, tcp or shm"},
    {kDelay, "", "0 to 10000000"},           {kDelay, "-1", "0 to 10000000"},
    {kDelay, "1.5", "0 to 10000000"},        {kDelay, "10000001", "0 to 10000000"},
};
INSTANTIATE_TEST_SUITE_P(Table, ConfigRefuses, testing::ValuesIn(kRefusals));

TEST(UcxEnvironment, IsWrittenWhereUnsetAndKeptWhereSet) {
  for (const char* name : {"UCX_ERROR_SIGNALS", "UCX_DEBUG_SIGNO", "UCX_HANDLE_ERRORS", "UCX_MEM_EVENTS"})
    unsetenv(name);
  setenv("UCX_WARN_UNUSED_ENV_VARS", "y", 1);
  make_ucx_environment_safe();
  EXPECT_STREQ(getenv("UCX_ERROR_SIGNALS"), "");
  EXPECT_STREQ(getenv("UCX_DEBUG_SIGNO"), "0");
  EXPECT_STREQ(getenv("UCX_HANDLE_ERRORS"), "none");
  EXPECT_STREQ(getenv("UCX_MEM_EVENTS"), "n");
  EXPECT_STREQ(getenv("UCX_WARN_UNUSED_ENV_VARS"), "y");
}

}  // namespace
}  // namespace stepgate::hostnccl

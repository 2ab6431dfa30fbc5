// ncclConfig_t and ncclSimInfo_t as programs of any release hand them over.
#include "collectives/hostnccl/comm_config.h"

#include <gtest/gtest.h>

#include <cstring>

namespace stepgate::hostnccl {
namespace {

struct Row {
  const char* what;
  int ncclConfig_t::*member;
  int value;
  bool allowed;
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.what << ' ' << row.value;
}

class CommConfig : public testing::TestWithParam<Row> {};

// Values and bounds: parseCommConfig of NCCL 2.28.9.
constexpr Row kRows[] = {
    {"blocking", &ncclConfig_t::blocking, 0, true},
    {"blocking", &ncclConfig_t::blocking, 1, true},
    {"blocking", &ncclConfig_t::blocking, NCCL_CONFIG_UNDEF_INT, true},
    {"blocking", &ncclConfig_t::blocking, 2, false},
    {"blocking", &ncclConfig_t::blocking, -1, false},
    {"cgaClusterSize", &ncclConfig_t::cgaClusterSize, 0, true},
    {"cgaClusterSize", &ncclConfig_t::cgaClusterSize, -1, false},
    {"minCTAs", &ncclConfig_t::minCTAs, 4, false},  // without a maximum
    {"minCTAs", &ncclConfig_t::minCTAs, 0, false},
    {"maxCTAs", &ncclConfig_t::maxCTAs, 4, true},
    {"maxCTAs", &ncclConfig_t::maxCTAs, 0, false},
    {"splitShare", &ncclConfig_t::splitShare, 2, false},
    {"trafficClass", &ncclConfig_t::trafficClass, -17, true},
    {"collnetEnable", &ncclConfig_t::collnetEnable, 2, false},
    {"CTAPolicy", &ncclConfig_t::CTAPolicy, 2, true},
    {"CTAPolicy", &ncclConfig_t::CTAPolicy, 4, false},
    {"shrinkShare", &ncclConfig_t::shrinkShare, -1, false},
    {"nvlsCTAs", &ncclConfig_t::nvlsCTAs, 0, false},
    {"nChannelsPerNetPeer", &ncclConfig_t::nChannelsPerNetPeer, 64, true},
    {"nChannelsPerNetPeer", &ncclConfig_t::nChannelsPerNetPeer, 65, false},
    {"nvlinkCentricSched", &ncclConfig_t::nvlinkCentricSched, 2, false},
};
INSTANTIATE_TEST_SUITE_P(Table, CommConfig, testing::ValuesIn(kRows));

TEST_P(CommConfig, MembersAreChecked) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.*GetParam().member = GetParam().value;
  bool blocking = true;
  const Outcome outcome = read_comm_config(&config, &blocking);
  EXPECT_EQ(outcome.code, GetParam().allowed ? ncclSuccess : ncclInvalidArgument) << outcome.message;
  if (!GetParam().allowed) {
    const std::string named =
        std::string("config.") + GetParam().what + " " + std::to_string(GetParam().value);
    EXPECT_NE(outcome.message.find(named), std::string::npos) << outcome.message;
  }
}

TEST(CommConfigStruct, OnlyZeroIsNonBlocking) {
  bool blocking = false;
  ASSERT_TRUE(read_comm_config(nullptr, &blocking).ok());
  EXPECT_TRUE(blocking);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ASSERT_TRUE(read_comm_config(&config, &blocking).ok());
  EXPECT_TRUE(blocking);
  config.blocking = 0;
  ASSERT_TRUE(read_comm_config(&config, &blocking).ok());
  EXPECT_FALSE(blocking);
}

TEST(CommConfigStruct, WithoutTheMagicItIsRefused) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  bool blocking = true;
  EXPECT_EQ(read_comm_config(&config, &blocking).code, ncclInvalidArgument);
  config = NCCL_CONFIG_INITIALIZER;
  config.size = sizeof config.size;  // too short to have one
  EXPECT_EQ(read_comm_config(&config, &blocking).code, ncclInvalidArgument);
}

// NCCL 2.14's struct ended behind `blocking`.
TEST(CommConfigStruct, OfAShorterOneTheRestIsNotRead) {
  struct Old {
    std::size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
    int behind;  // what lies there in the caller's memory
  } old = {offsetof(Old, behind), STEPGATE_NCCL_CONFIG_MAGIC, 21400, 0, -99};
  bool blocking = true;
  const Outcome outcome = read_comm_config(reinterpret_cast<const ncclConfig_t*>(&old), &blocking);
  EXPECT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_FALSE(blocking);
}

TEST(CommConfigStruct, OfAnOlderReleaseItsOwnMembersCount) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.version = 21800;
  config.nvlsCTAs = -5;  // 2.27
  bool blocking = true;
  EXPECT_TRUE(read_comm_config(&config, &blocking).ok());
  config.cgaClusterSize = -5;  // 2.17
  EXPECT_EQ(read_comm_config(&config, &blocking).code, ncclInvalidArgument);
}

TEST(CommConfigStruct, LongerOnesOfLaterReleasesAreTaken) {
  struct Longer {
    ncclConfig_t known;
    int news[4];
  } longer = {NCCL_CONFIG_INITIALIZER, {1, 2, 3, 4}};
  longer.known.size = sizeof longer;
  longer.known.version = 23000;
  longer.known.blocking = 0;
  bool blocking = true;
  EXPECT_TRUE(read_comm_config(&longer.known, &blocking).ok());
  EXPECT_FALSE(blocking);
}

TEST(SimInfo, IsCheckedAndAnsweredWithUnknown) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  info.estimatedTime = 3;
  EXPECT_TRUE(answer_simulation(&info).ok());
  EXPECT_EQ(info.estimatedTime, NCCL_UNDEF_FLOAT);
  info.estimatedTime = 3;
  info.magic = 1;
  EXPECT_EQ(answer_simulation(&info).code, ncclInvalidArgument);
  EXPECT_EQ(info.estimatedTime, 3);
}

}  // namespace
}  // namespace stepgate::hostnccl

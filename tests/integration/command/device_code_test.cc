// Which machine code a device can run.
#include "integration/command/check/device_code.h"

#include <gtest/gtest.h>

namespace stepgate::command {
namespace {

const DeviceCode kCode = {true, 13000, {75, 80, 86, 89, 90, 100, 103, 120}, 120};

TEST(DeviceCode, MachineCodeOfTheOwnMajorNumber) {
  EXPECT_EQ(fitting_code(kCode, 90, 13000), "sm_90");
  EXPECT_EQ(fitting_code(kCode, 87, 13000), "sm_86");
  EXPECT_EQ(fitting_code(kCode, 103, 13000), "sm_103");
  EXPECT_EQ(fitting_code(kCode, 121, 13000), "sm_120");
  EXPECT_EQ(fitting_code(kCode, 70, 13000), "");
  EXPECT_EQ(fitting_code({true, 13000, {86}, 0}, 80, 13000), "") << "newer code of the same major number";
}

TEST(DeviceCode, PtxOnNewerDevices) {
  EXPECT_EQ(fitting_code(kCode, 130, 13000), "PTX of compute_120");
  EXPECT_EQ(fitting_code(kCode, 110, 13000), "");
  EXPECT_EQ(fitting_code({true, 13010, {80}, 80}, 90, 13000), "") << "the driver is older than the compiler";
}

TEST(DeviceCode, LineOfTheFile) {
  const DeviceCode code = parse_device_code("cuda=12.8 sm=80,90 ptx=90");
  EXPECT_TRUE(code.present);
  EXPECT_EQ(code.cuda, 12080);
  EXPECT_EQ(code.architectures, (std::vector<int>{80, 90}));
  EXPECT_EQ(code.ptx, 90);
}

TEST(DeviceCode, DamagedLines) {
  for (const char* line :
       {"", "cuda=", "cuda=13.0", "sm=80 ptx=80", "cuda=x sm=80", "cuda=13.0 sm=,, ptx="}) {
    EXPECT_FALSE(parse_device_code(line).present) << line;
  }
  EXPECT_FALSE(device_code_of("/no/such/file").present);
}

#ifdef STEPGATE_FATBIN_ARCHIVE
// The line beside the kernels of this tree names the architectures that the tree compiled for.
TEST(DeviceCode, KernelsOfThisTree) {
  const DeviceCode code = device_code_of(STEPGATE_FATBIN_ARCHIVE);
  std::string list;
  for (const int a : code.architectures) list += (list.empty() ? "" : ",") + std::to_string(a);
  EXPECT_EQ(list, STEPGATE_TEST_ARCHITECTURES);
}
#endif

}  // namespace
}  // namespace stepgate::command

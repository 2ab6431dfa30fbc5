// What goes wrong between charlm and a driver is said in a sentence, and nothing is left behind.
#include "integration/examples/charlm/device/device.h"

#include <gtest/gtest.h>

#include <functional>

#include "integration/examples/charlm/device/captured.h"
#include "integration/examples/charlm/device/image.h"
#include "tests/integration/charlm/device/adam_job.h"

namespace stepgate::test {
namespace {

using charlm::Device;

std::string words_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

std::string words_of_device(const std::string& library = StandIn::path()) {
  return words_of([&] { Device device(library, 0); });
}

void expect_says(const std::string& words, const std::string& part) {
  EXPECT_NE(words.find(part), std::string::npos) << "'" << words << "' lacks '" << part << "'";
}

TEST(CharlmDevice, MachineWithoutADriver) {
  const std::string words = words_of_device("libno_such_driver.so.1");
  expect_says(words, "--device cuda: no CUDA driver on this machine (libno_such_driver.so.1");
  expect_says(words, "--device host needs none");
}

TEST(CharlmDevice, LibraryThatIsNoDriver) {
  expect_says(words_of_device("libc.so.6"), "the CUDA driver libc.so.6 lacks cuInit, ");
}

TEST(CharlmDevice, MachineWithoutADevice) {
  StandIn standin({.devices = 0});
  expect_says(words_of_device(), "the CUDA driver sees no device");
}

TEST(CharlmDevice, InitialisationThatFails) {
  StandIn standin;
  standin.control().fail("cuInit", 0, 100, 1);
  expect_says(words_of_device(), "the CUDA driver sees no device");
  standin.control().fail("cuInit", 0, 803, 1);
  expect_says(words_of_device(),
              "the CUDA driver does not start: cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)");
}

TEST(CharlmDevice, DriverThatRefusesTheKernels) {
  StandIn standin({.knows_image = false});
  const std::string words = words_of_device();
  expect_says(words, charlm::has_device_code() ? "may be older than the CUDA toolkit" : "built without nvcc");
  expect_says(words, "cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU (209)");
}

TEST(CharlmDevice, LocalRanksAreCountedRound) {
  StandIn standin({.devices = 2});
  Device first(StandIn::path(), 0), second(StandIn::path(), 1), third(StandIn::path(), 2);
  EXPECT_EQ(standin.control().account().contexts, 3);
}

// Every driver call of a short job fails once. StandIn checks that nothing is left.
TEST(CharlmDevice, AnyCallThatFailsIsNamedAndNothingIsLeft) {
  int failures = 0;
  for (std::uint64_t index = 0;; ++index) {
    StandIn standin;
    standin.control().fail(nullptr, index, 2, 1);
    const std::string words = words_of([] {
      AdamJob job({charlm::GradType::kFp32, 1, true});
      job.step(false, 64);
      job.step(false, 64);
      job.device_state();
    });
    const bool hit = standin.control().faults_hit() != 0;
    standin.control().heal();
    if (!hit) break;
    failures += !words.empty();
    if (!words.empty()) expect_says(words, "CUDA_ERROR_OUT_OF_MEMORY (2)");
  }
  EXPECT_GT(failures, 30);
}

TEST(CharlmCaptured, WorkThatThrowsEndsTheCapture) {
  StandIn standin;
  AdamJob job({});
  charlm::Captured captured(job.device());
  EXPECT_EQ(words_of([&] { captured.run([] { throw std::runtime_error("in the middle"); }); }),
            "in the middle");
  job.step(false, 64);
  job.expect_equal();
}

TEST(CharlmCaptured, IsCapturedOnceAndReplayed) {
  StandIn standin;
  AdamJob job({charlm::GradType::kFp32, 1, true});
  for (int i = 0; i < 5; ++i) job.step(i == 2, 64);
  job.expect_equal();
  EXPECT_EQ(standin.count("cuStreamBeginCapture_v2"), 1u);
  EXPECT_EQ(standin.count("cuGraphLaunch"), 5u);
}

}  // namespace
}  // namespace stepgate::test

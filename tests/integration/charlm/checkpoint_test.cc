// Checkpoint files: what goes in comes out, and a damaged one is refused.
#include "integration/examples/charlm/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace stepgate::charlm {
namespace {

std::string temporary_path(const char* name) {
  return (std::filesystem::temp_directory_path() / (std::string(name) + std::to_string(getpid()))).string();
}

Checkpoint example() {
  return {12, true, {1.0f, -2.5f}, {7, {0.5f}, {0.25f}, {0.125f}}, {1, 2, 3}};
}

TEST(CharlmCheckpoint, ComesBackAsItWent) {
  const std::string path = temporary_path("charlm_checkpoint");
  write_checkpoint(path, example());
  const Checkpoint read = read_checkpoint(path);
  EXPECT_EQ(read.step, 12u);
  EXPECT_TRUE(read.gated);
  EXPECT_EQ(read.weights, example().weights);
  EXPECT_EQ(read.adam.updates, 7u);
  EXPECT_EQ(read.adam.masters, example().adam.masters);
  EXPECT_EQ(read.adam.first_moments, example().adam.first_moments);
  EXPECT_EQ(read.adam.second_moments, example().adam.second_moments);
  EXPECT_EQ(read.judge, example().judge);
  std::filesystem::remove(path);
}

TEST(CharlmCheckpoint, EveryTruncationIsRefused) {
  const std::string path = temporary_path("charlm_truncated");
  write_checkpoint(path, example());
  const auto size = std::filesystem::file_size(path);
  for (auto cut = size; cut-- > 0;) {
    std::filesystem::resize_file(path, cut);
    EXPECT_THROW(read_checkpoint(path), std::runtime_error) << cut;
  }
  std::filesystem::remove(path);
  EXPECT_THROW(read_checkpoint(path), std::runtime_error);
}

}  // namespace
}  // namespace stepgate::charlm

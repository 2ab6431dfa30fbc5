// Checkpoint files: what goes in comes out, and a damaged one is refused.
#include "integration/examples/charlm/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace stepgate::charlm {
namespace {

std::string temporary_path(const char* name) {
  return (std::filesystem::temp_directory_path() / (std::string(name) + std::to_string(getpid()))).string();
}

Checkpoint example() {
  const CheckpointHeader header = {
      .rank = 1, .world = 4, .zero1 = 1, .seed = 3, .step = 12, .run = 99, .gated = 1};
  return {header, {1.0f, -2.5f}, {7, {0.5f}, {0.25f}, {0.125f}}, {1, 2, 3}};
}

TEST(CharlmCheckpoint, ComesBackAsItWent) {
  const std::string path = temporary_path("charlm_checkpoint");
  write_checkpoint(path, example());
  const Checkpoint read = read_checkpoint(path);
  EXPECT_EQ(read.header, example().header);
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

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string refusal_of(const std::string& path) {
  try {
    read_checkpoint(path);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(CharlmCheckpoint, FlippedBitInAnyByteIsRefused) {
  const std::string path = temporary_path("charlm_flipped");
  write_checkpoint(path, example());
  const std::string good = bytes_of(path);
  for (std::size_t byte = 0; byte < good.size(); ++byte) {
    std::string bad = good;
    bad[byte] = static_cast<char>(bad[byte] ^ (1 << (byte % 8)));
    std::ofstream(path, std::ios::binary) << bad;
    EXPECT_NE(refusal_of(path), "") << byte;
  }
  std::ofstream(path, std::ios::binary) << good << 'x';
  EXPECT_NE(refusal_of(path), "") << "a byte more";
  std::filesystem::remove(path);
}

TEST(CharlmCheckpoint, RefusalsSayWhatIsWrong) {
  const std::string path = temporary_path("charlm_says");
  write_checkpoint(path, example());
  std::string bytes = bytes_of(path);
  bytes[8] = 9;
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_NE(refusal_of(path).find(path + ": its format is 9; allowed: 2"), std::string::npos)
      << refusal_of(path);
  bytes[8] = 2;
  bytes[40] = static_cast<char>(bytes[40] ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_NE(refusal_of(path).find("its checksum is 0x"), std::string::npos) << refusal_of(path);
  std::ofstream(path, std::ios::binary) << "CHARLM01 and more";
  EXPECT_NE(refusal_of(path).find("its format is 1; allowed: 2"), std::string::npos) << refusal_of(path);
  std::filesystem::remove(path);
  EXPECT_NE(refusal_of(path).find("No such file"), std::string::npos) << refusal_of(path);
}

struct HeaderCase {
  std::uint64_t CheckpointHeader::*field;
  std::uint64_t value;
  const char* says;
};

TEST(CharlmCheckpoint, HeaderOfAnotherRankOrRunIsRefused) {
  const CheckpointHeader wanted = example().header;
  EXPECT_NO_THROW(check_header(wanted, wanted, 13, "f"));
  const HeaderCase cases[] = {
      {&CheckpointHeader::rank, 2, "the rank in the checkpoint f is 2; allowed: 1"},
      {&CheckpointHeader::world, 8, "the number of ranks is 4; allowed: 8, for the checkpoint f"},
      {&CheckpointHeader::zero1, 0, "--strategy is zero1; allowed: ddp, for the checkpoint f"},
      {&CheckpointHeader::seed, 4, "--seed is 3; allowed: 4, for the checkpoint f"},
      {&CheckpointHeader::step, 13, "--steps is 13; allowed: more than the 13 that are done"}};
  for (const HeaderCase& c : cases) {
    CheckpointHeader header = wanted;
    header.*c.field = c.value;
    std::string says;
    try {
      check_header(header, wanted, 13, "f");
    } catch (const std::invalid_argument& error) {
      says = error.what();
    }
    EXPECT_NE(says.find(c.says), std::string::npos) << says;
  }
}

TEST(CharlmCheckpoint, FilesOfDifferentCheckpointsAreAMixture) {
  const CheckpointHeader header = example().header;
  std::vector<CheckpointHeader> all(3, header);
  for (unsigned r = 0; r < 3; ++r) all[r].rank = r;
  EXPECT_EQ(mixture(all), "");
  for (const auto field :
       {&CheckpointHeader::step, &CheckpointHeader::seed, &CheckpointHeader::run, &CheckpointHeader::gated}) {
    std::vector<CheckpointHeader> mixed = all;
    mixed[2].*field += 1;
    EXPECT_NE(mixture(mixed).find("in the file of rank 2"), std::string::npos) << mixture(mixed);
  }
}

TEST(CharlmCheckpoint, FailedWriteLeavesNoTemporaryAndGivesTheReason) {
  const std::string path = temporary_path("charlm_folder");
  std::filesystem::create_directories(path + "/inside");
  std::string says;
  try {
    write_checkpoint(path, example());  // a folder cannot be replaced by a file
  } catch (const std::runtime_error& error) {
    says = error.what();
  }
  EXPECT_NE(says.find("cannot write the checkpoint " + path + ": Is a directory"), std::string::npos) << says;
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace stepgate::charlm

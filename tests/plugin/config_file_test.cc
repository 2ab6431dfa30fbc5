// The configuration file: its lines, what it is refused for, and that the environment wins over it.
#include "plugin/core/config_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "plugin/core/config_table.h"
#include "plugin/core/configuration.h"
#include "tests/integration/process.h"

namespace stepgate::gate {
namespace {

using test::TemporaryFolder;
using Variables = std::map<std::string, std::string>;

ConfigFile parsed(std::string_view text) {
  ConfigFile file;
  std::string error;
  EXPECT_TRUE(parse_config_file(text, "f", &file, &error)) << error;
  return file;
}

TEST(ConfigFile, Lines) {
  const struct {
    std::string_view line;
    const char* value;
  } cases[] = {
      {"STEPGATE_JOB_NAME=a", "a"},
      {"  STEPGATE_JOB_NAME \t=  a b \t", "a b"},
      {"STEPGATE_JOB_NAME = a\r", "a"},
      {"STEPGATE_JOB_NAME = a # b", "a"},
      {"STEPGATE_JOB_NAME = a#b", "a#b"},
      {"STEPGATE_JOB_NAME = \"a # b \"", "a # b "},
      {"STEPGATE_JOB_NAME = \"a\"  # b", "a"},
      {"STEPGATE_JOB_NAME = \"\"", ""},
      {"STEPGATE_JOB_NAME =", ""},
      {"STEPGATE_JOB_NAME = # b", ""},
      {"STEPGATE_JOB_NAME = a = b", "a = b"},
      {"STEPGATE_JOB_NAME = it's", "it's"},
      {"\xef\xbb\xbfSTEPGATE_JOB_NAME = a", "a"},
  };
  for (const auto& c : cases) {
    const ConfigFile file = parsed(c.line);
    ASSERT_EQ(file.values.size(), 1u) << c.line;
    EXPECT_EQ(file.values.at("STEPGATE_JOB_NAME").text, c.value) << c.line;
    EXPECT_EQ(file.values.at("STEPGATE_JOB_NAME").where, "f:1");
  }
}

TEST(ConfigFile, CommentsAndEmptyLinesAreCountedAndNothingElse) {
  const ConfigFile file = parsed("# one\n\n \t\r\n  # four = 4\nSTEPGATE_LOG = off\n\nSTEPGATE_MODE=off");
  ASSERT_EQ(file.values.size(), 2u);
  EXPECT_EQ(file.values.at("STEPGATE_LOG").where, "f:5");
  EXPECT_EQ(file.values.at("STEPGATE_MODE").where, "f:7");
  EXPECT_TRUE(parsed("").values.empty());
  EXPECT_TRUE(parsed("\n").values.empty());
}

TEST(ConfigFile, BadLinesAreRefusedWithPlaceTextAndWhatIsAllowed) {
  const struct {
    std::string_view text;
    const char* words;
  } cases[] = {
      {"\nSTEPGATE_MODE enforce", "f:2: this line is refused; allowed: NAME = value"},
      {"= enforce", "f:1: this line is refused; allowed: NAME = value"},
      {"export STEPGATE_MODE=off", "allowed: NAME = value"},
      {"stepgate_mode = off", "allowed: NAME = value"},
      {"[section]", "allowed: NAME = value"},
      {"STEPGATE_JOB_NAME = \"a", "double quotes"},
      {"STEPGATE_JOB_NAME = \"a\" b", "double quotes"},
      {"RANK = 1", "allowed: names that begin with STEPGATE_"},
      {"AWS_SECRET_ACCESS_KEY = hunter2", "f:1: AWS_SECRET_ACCESS_KEY=... is refused; allowed: names that"},
      {"STEPGATE_CONFIG = x", "a file does not name another one"},
      {"STEPGATE_HOSTNCCL_TIMEOUT = 3", "in the environment, where hostnccl reads it"},
      {"STEPGATE_LOG = off\nSTEPGATE_LOG = off", "f:2: STEPGATE_LOG=... is refused; allowed: each name once"},
      {std::string_view("STEPGATE_LOG = o\0ff", 19), "zero byte"},
  };
  for (const auto& c : cases) {
    ConfigFile file;
    file.unknown = {"untouched"};
    std::string error;
    EXPECT_FALSE(parse_config_file(c.text, "f", &file, &error)) << c.text;
    EXPECT_NE(error.find(c.words), std::string::npos) << error;
    EXPECT_EQ(file.unknown.front(), "untouched");
  }
}

TEST(ConfigFile, UnknownNamesAreToldWithTheNearestKnownOne) {
  const ConfigFile file = parsed("STEPGATE_LOG = off\nSTEPGATE_MAXNORM = 3");
  ASSERT_EQ(file.unknown.size(), 1u);
  EXPECT_EQ(file.unknown.front(),
            "f:2: nothing reads STEPGATE_MAXNORM; the nearest known name is STEPGATE_MAX_NORM");
}

std::string write_file(const TemporaryFolder& folder, const std::string& text) {
  const std::string path = folder.file("stepgate.conf");
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(ConfigFile, FilesThatAreNoneAreRefusedInWords) {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string large = write_file(folder, std::string(kMaxConfigFileBytes + 1, '\n'));
  const std::pair<std::string, const char*> cases[] = {{folder.file("none"), "No such file"},
                                                       {folder.file(""), "not a regular file"},
                                                       {pipe, "not a regular file"},
                                                       {large, "File too large"}};
  for (const auto& [path, words] : cases) {
    ConfigFile file;
    std::string error;
    EXPECT_FALSE(read_config_file(path, &file, &error)) << path;
    EXPECT_NE(error.find(words), std::string::npos) << error;
    EXPECT_NE(error.find(path), std::string::npos) << error;
  }
}

// ---- with an environment

Configuration configured(Variables variables, const std::string& path, std::string* error,
                         std::vector<std::string>* notes) {
  variables["STEPGATE_CONFIG"] = path;
  const Environment environment = [&](const char* name) {
    const auto it = variables.find(name);
    return it != variables.end() ? it->second.c_str() : nullptr;
  };
  Configuration c;
  const bool good = read_configuration(environment, &c, error, notes);
  EXPECT_EQ(good, error->empty());
  return c;
}

const Setting& setting(const Configuration& c, const std::string& name) {
  return *std::find_if(c.settings.begin(), c.settings.end(),
                       [&](const Setting& s) { return name == s.name; });
}

TEST(ConfigFile, GivesWhatTheEnvironmentLeavesUnset) {
  const TemporaryFolder folder;
  const std::string path =
      write_file(folder,
                 "STEPGATE_MODE = enforce\nSTEPGATE_RULE = apex\nSTEPGATE_HYSTERESIS = 3\n"
                 "STEPGATE_MAX_NORM = 2\nSTEPGATE_SKIP_NORM =\nSTEPGATE_LOGG = off\n");
  std::string error;
  std::vector<std::string> notes;
  const Configuration c =
      configured({{"STEPGATE_MAX_NORM", "5"}, {"STEPGATE_MODE", ""}, {"RANK", "1"}, {"WORLD_SIZE", "2"}},
                 path, &error, &notes);
  ASSERT_EQ(error, "");
  EXPECT_EQ(c.mode, Mode::kEnforce) << "an empty variable is unset";
  EXPECT_EQ(c.scaler.rule, ScalerRule::kApex);
  EXPECT_EQ(c.scaler.hysteresis, 3u);
  EXPECT_EQ(c.max_norm, 5) << "the environment wins";
  EXPECT_EQ(c.skip_norm, 0);
  EXPECT_EQ(c.rank, 1u);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes.front().find("STEPGATE_LOGG; the nearest known name is STEPGATE_LOG"), std::string::npos);
  ASSERT_EQ(c.settings.size(), config_table().size());
  EXPECT_EQ(setting(c, "STEPGATE_MODE").value, "enforce");
  EXPECT_EQ(setting(c, "STEPGATE_MODE").origin, path + ":1");
  EXPECT_EQ(setting(c, "STEPGATE_MAX_NORM").value, "5");
  EXPECT_EQ(setting(c, "STEPGATE_MAX_NORM").origin, "environment");
  EXPECT_EQ(setting(c, "STEPGATE_LOG").value, "warn");
  EXPECT_EQ(setting(c, "STEPGATE_LOG").origin, "default");
}

TEST(ConfigFile, BadValuesNameTheirLine) {
  const TemporaryFolder folder;
  const std::string path = write_file(folder, "\nSTEPGATE_RULE = amp\n");
  std::string error;
  std::vector<std::string> notes;
  configured({}, path, &error, &notes);
  EXPECT_EQ(error.rfind(path + ":2: STEPGATE_RULE='amp' is refused; allowed: stepgate, torch", 0), 0u)
      << error;
  error.clear();
  const Configuration c = configured({{"STEPGATE_RULE", "torch"}}, path, &error, &notes);
  EXPECT_EQ(error, "") << "the bad value is not the one that counts";
  EXPECT_EQ(c.scaler.rule, ScalerRule::kTorch);
}

TEST(ConfigFile, OneThatCannotBeReadIsRefusedByItsVariable) {
  std::string error;
  std::vector<std::string> notes;
  configured({}, "/nonexistent/stepgate.conf", &error, &notes);
  EXPECT_EQ(
      error,
      "STEPGATE_CONFIG='/nonexistent/stepgate.conf' is refused; allowed: a file of lines `NAME = value`; "
      "environment only; /nonexistent/stepgate.conf: No such file or directory");
}

}  // namespace
}  // namespace stepgate::gate

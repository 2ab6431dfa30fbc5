// The layer arrows of the tree, and proof that the check sees a planted wrong one.
#include "tests/repo/layers.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace stepgate::repo {
namespace {
namespace fs = std::filesystem;

LayerTable real_table() {
  return parse_layers(read_file(source_root(), "tests/repo/layers.txt").lines);
}

// A small tree of its own, removed at the end.
class PlantedTree : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "stepgate_layers_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr) << pattern;
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::vector<std::string> check() { return check_includes(real_table(), root_, read_sources(root_)); }

  fs::path root_;
};

TEST(Layers, EveryIncludeOfTheTreeIsAllowed) {
  const auto files = read_sources(source_root());
  ASSERT_GT(files.size(), 20u) << "found next to no sources below " << source_root();
  const auto problems = check_includes(real_table(), source_root(), files);
  EXPECT_TRUE(problems.empty()) << joined(problems);
}

TEST(Layers, EveryPathOfTheTableExists) {
  for (const auto& [path, name] : real_table().layers) {
    if (name == "device_cuda") continue;  // the folder comes with the CUDA device
    EXPECT_TRUE(fs::exists(source_root() / path)) << "layer " << name << ": no " << path;
  }
}

TEST_F(PlantedTree, AllowedArrowsPass) {
  write("collectives/core/a.h", "#pragma once\n#include <cstdint>\n");
  write("metrics/m.h", "#include \"collectives/core/a.h\"\n#include <prometheus/counter.h>\n");
  write("plugin/include/stepgate/stepgate.h", "");
  write("integration/e.cc", "#include <stepgate/stepgate.h>\n#include \"stepgate/stepgate.h\"\n");
  EXPECT_TRUE(check().empty()) << joined(check());
}

TEST_F(PlantedTree, UpwardArrowIsFound) {
  write("metrics/m.h", "");
  write("collectives/core/a.h", "#pragma once\n\n  #  include \"metrics/m.h\"\n");
  ASSERT_EQ(check().size(), 1u) << joined(check());
  EXPECT_EQ(check()[0],
            "collectives/core/a.h:3: layer 'core' may not include metrics/m.h of layer 'metrics'");
}

TEST_F(PlantedTree, AngleBracketsHideNothing) {
  write("plugin/core/gate.h", "");
  write("plugin/include/stepgate/stepgate.h", "");
  write("plugin/shim/hook.cc", "#include <plugin/core/gate.h>\n");
  write("collectives/core/a.cc", "#include <stepgate/stepgate.h>\n");
  EXPECT_EQ(check().size(), 2u) << joined(check());
}

TEST_F(PlantedTree, ShimSeesTheEntryHeaderOnly) {
  write("plugin/core/core_entry.h", "");
  write("plugin/core/gate.h", "");
  write("plugin/shim/good.cc", "#include \"plugin/core/core_entry.h\"\n");
  EXPECT_TRUE(check().empty()) << joined(check());
  write("plugin/shim/bad.cc", "#include \"plugin/core/gate.h\"\n");
  EXPECT_EQ(check().size(), 1u) << joined(check());
}

TEST_F(PlantedTree, OnlyTheTransportHeaderLeavesUcx) {
  write("collectives/ucx/transport.h", "");
  write("collectives/ucx/world.h", "");
  write("collectives/hostnccl/h.cc", "#include \"collectives/ucx/transport.h\"\n");
  EXPECT_TRUE(check().empty()) << joined(check());
  write("collectives/hostnccl/i.cc", "#include \"collectives/ucx/world.h\"\n");
  EXPECT_EQ(check().size(), 1u) << joined(check());
}

TEST_F(PlantedTree, ConfinedForeignHeaderIsFound) {
  write("plugin/core/gate.cc", "#include <ucp/api/ucp.h>\n");
  ASSERT_EQ(check().size(), 1u) << joined(check());
  EXPECT_EQ(check()[0], "plugin/core/gate.cc:1: layer 'gate' may not include ucp/api/ucp.h");
}

TEST_F(PlantedTree, ConfinedForeignHeaderMayBeQuoted) {
  write("metrics/m.cc", "#include \"absl/strings/str_cat.h\"\n");
  EXPECT_TRUE(check().empty()) << joined(check());
  write("collectives/core/a.cc", "#include \"absl/strings/str_cat.h\"\n");
  EXPECT_EQ(check().size(), 1u) << joined(check());
}

TEST_F(PlantedTree, PathsBesideTheFileAreFound) {
  write("collectives/core/a.h", "");
  write("collectives/core/b.h", "#include \"a.h\"\n");
  EXPECT_EQ(check().size(), 1u) << joined(check());
}

TEST_F(PlantedTree, FileOutsideEveryLayerIsFound) {
  write("elsewhere/a.h", "");
  EXPECT_EQ(check().size(), 1u) << joined(check());
}

TEST(LayerTable, WrongTablesAreRefused) {
  EXPECT_THROW(parse_layers({"layer a"}), std::runtime_error);
  EXPECT_THROW(parse_layers({"layer a a/", "allow a: b"}), std::runtime_error);
  EXPECT_THROW(parse_layers({"layer a a/"}), std::runtime_error);
  EXPECT_THROW(parse_layers({"layer a a/", "allow a:", "permit a: *"}), std::runtime_error);
  EXPECT_NO_THROW(parse_layers({"# note", "", "layer a a/", "allow a:"}));
}

}  // namespace
}  // namespace stepgate::repo

// The layer table (layers.txt) and the check of every #include against it.
//
//   LayerTable table = parse_layers(read_file(root, "tests/repo/layers.txt").lines);
//   std::vector<std::string> problems = check_includes(table, root, read_sources(root));
//
// Thread: any; plain data.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/repo/source_tree.h"

namespace stepgate::repo {

struct LayerTable {
  std::vector<std::pair<std::string, std::string>> layers;              // path, name
  std::map<std::string, std::set<std::string>> allowed;                 // name -> names; "*" is everything
  std::vector<std::pair<std::string, std::set<std::string>>> confined;  // prefix -> names

  // Name of the layer of a path; nothing when no line of the table covers it.
  std::optional<std::string> layer_of(const std::string& path) const;
  bool may_include(const std::string& from, const std::string& to) const;
};

// Throws std::runtime_error that names the line when the table itself is wrong.
LayerTable parse_layers(const std::vector<std::string>& lines);

struct Include {
  std::size_t line = 0;  // counts from 1
  std::string target;
  bool quoted = false;
};
std::vector<Include> includes_of(const SourceFile& file);

// One sentence per forbidden arrow, per include that is not root-relative, per confined header.
std::vector<std::string> check_includes(const LayerTable& table, const std::filesystem::path& root,
                                        const std::vector<SourceFile>& files);

}  // namespace stepgate::repo

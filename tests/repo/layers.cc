#include "tests/repo/layers.h"

#include <stdexcept>

namespace stepgate::repo {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void bad_line(const std::string& line, const std::string& why) {
  throw std::runtime_error("layer table: '" + line + "': " + why);
}

void parse_line(const std::string& line, LayerTable& table) {
  std::vector<std::string> words = split_words(line);
  if (words.size() < 2) bad_line(line, "needs a keyword and a name");
  const std::set<std::string> rest(words.begin() + 2, words.end());
  if (words[0] == "layer" && words.size() == 3) {
    table.layers.emplace_back(words[2], words[1]);
  } else if (words[0] == "allow" && words[1].ends_with(":")) {
    table.allowed[words[1].substr(0, words[1].size() - 1)] = rest;
  } else if (words[0] == "confine" && !rest.empty()) {
    table.confined.emplace_back(words[1], rest);
  } else {
    bad_line(line, "allowed: layer NAME PATH, allow NAME: OTHERS, confine PREFIX NAMES");
  }
}

void check_names(const LayerTable& table) {
  std::set<std::string> known = {"*"};
  for (const auto& [path, name] : table.layers) known.insert(name);
  for (const auto& [name, others] : table.allowed) {
    if (!known.contains(name)) bad_line("allow " + name, "no such layer");
    for (const std::string& other : others) {
      if (!known.contains(other)) bad_line("allow " + name, "no layer '" + other + "'");
    }
  }
  for (const auto& [path, name] : table.layers) {
    if (!table.allowed.contains(name)) bad_line("layer " + name, "has no line 'allow'");
  }
}

// The file that a quoted include names, as the compiler's include path finds it.
std::optional<std::string> resolve(const fs::path& root, const std::string& target) {
  for (const char* folder : {"", "plugin/include/"}) {
    if (fs::is_regular_file(root / (folder + target))) return folder + target;
  }
  return std::nullopt;
}

class Checker {
 public:
  Checker(const LayerTable& table, const fs::path& root) : table_(table), root_(root) {}

  void check(const SourceFile& file) {
    const auto layer = table_.layer_of(file.path);
    if (!layer) {
      problems_.push_back(file.path + ": belongs to no layer of tests/repo/layers.txt");
      return;
    }
    for (const Include& include : includes_of(file)) check(file, *layer, include);
  }
  std::vector<std::string> take() { return std::move(problems_); }

 private:
  void check(const SourceFile& file, const std::string& from, const Include& include) {
    const std::string where = file.path + ":" + std::to_string(include.line) + ": ";
    const auto path = resolve(root_, include.target);
    if (path) {
      check_arrow(where, from, *path);
    } else if (!check_foreign(where, from, include.target) && include.quoted) {
      problems_.push_back(where + "\"" + include.target + "\" is not a path from the repository's root");
    }
  }

  void check_arrow(const std::string& where, const std::string& from, const std::string& path) {
    const auto to = table_.layer_of(path);
    if (!to) {
      problems_.push_back(where + path + " belongs to no layer");
    } else if (!table_.may_include(from, *to)) {
      problems_.push_back(where + "layer '" + from + "' may not include " + path + " of layer '" + *to + "'");
    }
  }

  // False where the table does not know the header.
  bool check_foreign(const std::string& where, const std::string& from, const std::string& target) {
    for (const auto& [prefix, names] : table_.confined) {
      if (!target.starts_with(prefix)) continue;
      if (!names.contains(from))
        problems_.push_back(where + "layer '" + from + "' may not include " + target);
      return true;
    }
    return false;
  }

  const LayerTable& table_;
  const fs::path& root_;
  std::vector<std::string> problems_;
};

}  // namespace

std::optional<std::string> LayerTable::layer_of(const std::string& path) const {
  const std::pair<std::string, std::string>* best = nullptr;
  for (const auto& layer : layers) {
    const bool covers = layer.first.ends_with("/") ? path.starts_with(layer.first) : path == layer.first;
    if (covers && (best == nullptr || layer.first.size() > best->first.size())) best = &layer;
  }
  return best == nullptr ? std::nullopt : std::optional(best->second);
}

bool LayerTable::may_include(const std::string& from, const std::string& to) const {
  if (from == to) return true;
  const auto it = allowed.find(from);
  return it != allowed.end() && (it->second.contains(to) || it->second.contains("*"));
}

LayerTable parse_layers(const std::vector<std::string>& lines) {
  LayerTable table;
  for (const std::string& line : lines) {
    if (line.empty() || line.starts_with("#")) continue;
    parse_line(line, table);
  }
  check_names(table);
  return table;
}

std::vector<Include> includes_of(const SourceFile& file) {
  std::vector<Include> found;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string& line = file.lines[i];
    std::size_t at = line.find_first_not_of(" \t");
    if (at == std::string::npos || line[at] != '#') continue;
    at = line.find_first_not_of(" \t", at + 1);
    if (at == std::string::npos || line.compare(at, 7, "include") != 0) continue;
    at = line.find_first_of("\"<", at);
    if (at == std::string::npos) continue;
    const std::size_t end = line.find(line[at] == '<' ? '>' : '"', at + 1);
    if (end == std::string::npos) continue;
    found.push_back({i + 1, line.substr(at + 1, end - at - 1), line[at] == '"'});
  }
  return found;
}

std::vector<std::string> check_includes(const LayerTable& table, const fs::path& root,
                                        const std::vector<SourceFile>& files) {
  Checker checker(table, root);
  for (const SourceFile& file : files) checker.check(file);
  return checker.take();
}

}  // namespace stepgate::repo

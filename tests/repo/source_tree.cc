#include "tests/repo/source_tree.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace stepgate::repo {
namespace fs = std::filesystem;
namespace {

bool ends_with_any(const std::string& path, std::initializer_list<const char*> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](const char* e) { return path.ends_with(e); });
}

std::vector<std::string> walk(const fs::path& root) {
  std::vector<std::string> found;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator(); ++it) {
    const std::string name = it->path().filename().string();
    const bool outside = name == "build" || (name.starts_with(".") && it->is_directory());
    if (outside) it.disable_recursion_pending();
    if (!outside && it->is_regular_file()) found.push_back(fs::relative(it->path(), root).generic_string());
  }
  return found;
}

}  // namespace

fs::path source_root() {
  return STEPGATE_SOURCE_DIR;
}

std::vector<std::string> tracked_paths(const fs::path& root) {
  std::vector<std::string> paths;
  if (fs::exists(root / ".git")) {
    paths = split_lines(run_command("git -c safe.directory='*' -C '" + root.string() + "' ls-files"));
    std::erase_if(paths, [&](const std::string& p) { return p.empty() || !fs::is_regular_file(root / p); });
  } else {
    paths = walk(root);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

SourceFile read_file(const fs::path& root, const std::string& path) {
  std::ifstream in(root / path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + (root / path).string());
  std::ostringstream text;
  text << in.rdbuf();
  return {path, split_lines(text.str())};
}

std::vector<SourceFile> read_sources(const fs::path& root) {
  std::vector<SourceFile> files;
  for (const std::string& path : tracked_paths(root)) {
    if (is_source(path)) files.push_back(read_file(root, path));
  }
  return files;
}

bool is_header(const std::string& path) {
  return ends_with_any(path, {".h", ".hpp", ".cuh"});
}

bool is_source(const std::string& path) {
  return is_header(path) || ends_with_any(path, {".c", ".cc", ".cpp", ".cu"});
}

bool is_text(const std::string& path) {
  return !ends_with_any(path, {".png", ".jpg", ".gz", ".zip", ".bin", ".pdf", ".fatbin", ".cubin"});
}

std::string run_command(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start: " + command);
  std::string text;
  std::array<char, 4096> buffer;
  for (std::size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    text.append(buffer.data(), n);
  const int status = pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error("status " + std::to_string(status) + " from: " + command);
  }
  return text;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string joined(const std::vector<std::string>& problems) {
  std::string text = "\n";
  for (const std::string& problem : problems) text += "  " + problem + "\n";
  return text;
}

}  // namespace stepgate::repo

// The repository's own files, as the tests in this folder look at them.
//
// Thread: any; functions without state. Order: none.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace stepgate::repo {

struct SourceFile {
  std::string path;  // relative to the root, with forward slashes
  std::vector<std::string> lines;
};

// The checkout that this test was built from.
std::filesystem::path source_root();

// Paths that git tracks below root; without git (a release archive) every file outside build/ and
// hidden folders. Sorted; files that are tracked but deleted are left out.
std::vector<std::string> tracked_paths(const std::filesystem::path& root);

// Reads a file; throws std::runtime_error with the path when it cannot.
SourceFile read_file(const std::filesystem::path& root, const std::string& path);

// C, C++ and CUDA sources and headers, read.
std::vector<SourceFile> read_sources(const std::filesystem::path& root);

bool is_header(const std::string& path);
bool is_source(const std::string& path);  // headers included
bool is_text(const std::string& path);    // by its name: not an image, an archive or the like

// Standard output of a command; throws when it cannot be run or ends with another status than 0.
std::string run_command(const std::string& command);

// Lines, or words between blanks, of a text.
std::vector<std::string> split_lines(const std::string& text);
std::vector<std::string> split_words(const std::string& text);

// Problems one a line, for a test's message.
std::string joined(const std::vector<std::string>& problems);

}  // namespace stepgate::repo

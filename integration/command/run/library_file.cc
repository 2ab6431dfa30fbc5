#include "integration/command/run/library_file.h"

#include <elf.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "integration/command/arguments.h"

namespace stepgate::command {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNcclName = "libnccl.so.2";

bool is_shared_library(const fs::path& path) {
  Elf64_Ehdr header{};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return false;
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_type == ET_DYN;
}

// Its name stands in the symbol table of the library.
bool mentions(const fs::path& path, const std::string& symbol) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return bytes.find('\0' + symbol + '\0') != std::string::npos;
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace

std::string folder_of_nccl(const std::string& path) {
  std::error_code ignored;
  const fs::path file = fs::is_directory(path, ignored) ? fs::path(path) / kNcclName : fs::path(path);
  // The ranks find it by this name in the folder, whatever file was meant.
  const fs::path named = file.parent_path() / kNcclName;
  if (!file.filename().string().starts_with(kNcclName) || !is_file(file) || !is_shared_library(file) ||
      !is_shared_library(named)) {
    bad_value(
        "--nccl", path,
        "host, system, or the path of libnccl.so.2 or of a folder that holds it (a 64-bit shared library)");
  }
  return fs::absolute(file).parent_path().string();
}

std::string checked_plugin(const std::string& path) {
  if (!is_file(path) || !is_shared_library(path) || !mentions(path, "stepgate_api_version")) {
    bad_value("--plugin", path,
              "the path of libstepgate.so (a 64-bit shared library with stepgate_api_version)");
  }
  return fs::absolute(path).string();
}

}  // namespace stepgate::command

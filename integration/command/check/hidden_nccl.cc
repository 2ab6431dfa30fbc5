#include "integration/command/check/hidden_nccl.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cstring>
#include <string_view>

namespace stepgate::command {
namespace {

class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      size_ = static_cast<std::size_t>(status.st_size);
      at_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (fd >= 0) close(fd);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (at_ != MAP_FAILED) munmap(at_, size_);
  }
  std::string_view bytes() const {
    return at_ == MAP_FAILED ? std::string_view() : std::string_view(static_cast<const char*>(at_), size_);
  }

 private:
  void* at_ = MAP_FAILED;
  std::size_t size_ = 0;
};

template <class T>
bool read_at(std::string_view bytes, std::uint64_t at, T* out) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return false;
  std::memcpy(out, bytes.data() + at, sizeof(T));
  return true;
}

bool is_nccl_name(std::string_view bytes, std::uint64_t at) {
  const std::string_view rest = at < bytes.size() ? bytes.substr(at, 16) : std::string_view();
  const std::string_view name = rest.substr(0, rest.find('\0'));
  return name == "ncclAllReduce" || name == "pncclAllReduce";
}

// In this one symbol table, which the file carries unless it was stripped.
bool defines_nccl(std::string_view bytes, const Elf64_Shdr& symbols, const Elf64_Shdr& names) {
  Elf64_Sym symbol{};
  for (std::uint64_t i = 0; i < symbols.sh_size / sizeof symbol; ++i) {
    if (!read_at(bytes, symbols.sh_offset + i * sizeof symbol, &symbol)) return false;
    if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
    if (is_nccl_name(bytes, names.sh_offset + symbol.st_name)) return true;
  }
  return false;
}

bool symbols_define_nccl(std::string_view bytes) {
  Elf64_Ehdr header{};
  if (!read_at(bytes, 0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  const auto section = [&](std::uint64_t i, Elf64_Shdr* out) {
    return i < header.e_shnum && read_at(bytes, header.e_shoff + i * sizeof *out, out);
  };
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr symbols{}, names{};
    if (!section(i, &symbols)) return false;
    if (symbols.sh_type != SHT_SYMTAB || !section(symbols.sh_link, &names)) continue;
    if (defines_nccl(bytes, symbols, names)) return true;
  }
  return false;
}

// "NCCL version 2.28.9+cuda13.0": a number, then +cuda. Other programs speak of NCCL versions too.
std::string version_text(std::string_view bytes) {
  constexpr std::string_view kMark = "NCCL version ";
  for (std::size_t at = bytes.find(kMark); at != bytes.npos; at = bytes.find(kMark, at + 1)) {
    const std::string_view rest = bytes.substr(at + kMark.size(), 24);
    std::size_t length = 0;
    while (length < rest.size() &&
           (std::isdigit(static_cast<unsigned char>(rest[length])) || rest[length] == '.'))
      ++length;
    if (length > 0 && rest.substr(length).starts_with("+cuda")) return std::string(rest.substr(0, length));
  }
  return "";
}

}  // namespace

bool has_nccl_inside(const std::string& path) {
  const MappedFile file(path);
  return symbols_define_nccl(file.bytes()) || !version_text(file.bytes()).empty();
}

std::string nccl_version_in(const std::string& path) {
  return version_text(MappedFile(path).bytes());
}

}  // namespace stepgate::command

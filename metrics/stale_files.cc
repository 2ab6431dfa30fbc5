#include "metrics/stale_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace stepgate::metrics {
namespace {

constexpr std::size_t kHead = 8192;  // the mark stands near the beginning

bool has_mark(int fd, const std::string& mark) {
  std::array<char, kHead> head{};
  const ssize_t got = pread(fd, head.data(), head.size(), 0);
  return got > 0 &&
         std::string_view(head.data(), static_cast<std::size_t>(got)).find(mark) != std::string_view::npos;
}

bool same_file(int fd, const std::string& path) {
  struct stat held {};
  struct stat named {};
  return fstat(fd, &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

bool remove_if_stale(const std::string& path, const std::string& mark) {
  const HeldFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.fd() < 0 || !has_mark(file.fd(), mark)) return false;
  // Held, or a file system without locks: it stays.
  if (flock(file.fd(), LOCK_EX | LOCK_NB) != 0) return false;
  return remove_if_same(file.fd(), path);
}

}  // namespace

// A rank that has just come may have put its own file under the name: what was moved aside by mistake goes
// back.
bool remove_if_same(int fd, const std::string& path) {
  if (!same_file(fd, path)) return false;
  const std::string aside = absl::StrCat(path, ".", getpid(), ".stale");
  if (std::rename(path.c_str(), aside.c_str()) != 0) return false;
  if (same_file(fd, aside)) return unlink(aside.c_str()) == 0;
  static_cast<void>(std::rename(aside.c_str(), path.c_str()));
  return false;
}

HeldFile& HeldFile::operator=(HeldFile&& other) noexcept {
  if (this != &other) {
    release();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void HeldFile::release() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

int sweep_stale_files(const std::string& dir, const std::string& ending, const std::string& mark) {
  int removed = 0;
  std::error_code error;
  std::filesystem::directory_iterator entry(dir, error), end;
  while (!error && entry != end) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("stepgate_") && name.ends_with(ending) &&
        remove_if_stale(entry->path().string(), mark)) {
      ++removed;
    }
    entry.increment(error);
  }
  return removed;
}

}  // namespace stepgate::metrics

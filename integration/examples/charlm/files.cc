#include "integration/examples/charlm/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace stepgate::charlm {
namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

// 0, or the error.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

int write_file(const std::string& path, std::string_view bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  int error = write_all(fd, bytes);
  // Network file systems tell of a full disk only here.
  if (close(fd) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

void write_whole_file(const std::string& path, std::string_view bytes, const char* what) {
  const std::string temporary = path + ".new";
  int error = write_file(temporary, bytes);
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  unlink(temporary.c_str());
  fail("cannot write " + std::string(what) + " " + path, error);
}

std::string read_whole_file(const std::string& path, const char* what) {
  const std::string name = "cannot read " + std::string(what) + " " + path;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(name, errno);
  std::string text;
  char buffer[65536];
  ssize_t got;
  while ((got = read(fd, buffer, sizeof buffer)) != 0) {
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  const int error = got < 0 ? errno : 0;
  close(fd);
  if (error != 0) fail(name, error);
  return text;
}

void flush_standard_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fail("cannot write to standard output", errno != 0 ? errno : EIO);
  }
}

void hold_standard_streams() noexcept {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is this one.
    if (open("/dev/null", fd == 1 ? O_RDONLY : O_RDWR) != fd) return;
  }
}

}  // namespace stepgate::charlm

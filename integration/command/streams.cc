#include "integration/command/streams.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

namespace stepgate::command {

void hold_standard_streams() noexcept {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is this one.
    if (open("/dev/null", fd == 1 ? O_RDONLY : O_RDWR) != fd) return;
  }
}

void print(const char* text) {
  errno = 0;
  if (std::fputs(text, stdout) >= 0 && std::fflush(stdout) == 0) return;
  throw std::runtime_error(std::string("cannot write to standard output: ") + std::strerror(errno));
}

}  // namespace stepgate::command

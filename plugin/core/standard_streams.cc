#include "plugin/core/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace stepgate::gate {

void hold_standard_streams() noexcept {
  const int before = errno;
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    const int held = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (held > STDERR_FILENO) close(held);  // the job has opened one itself meanwhile
  }
  errno = before;
}

}  // namespace stepgate::gate

#include "integration/command/run/output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace stepgate::command {
namespace {

// A line without an end is cut here, so that a rank that prints no newline costs bounded memory.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

// 0, or the error at which it gave up on a closed or broken target.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd wait{fd, POLLOUT, 0};
      poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

LinePipe::LinePipe(int fd, int target, std::string prefix)
    : fd_(fd), target_(target), prefix_(std::move(prefix)) {}

LinePipe::LinePipe(LinePipe&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      target_(other.target_),
      write_error_(other.write_error_),
      prefix_(std::move(other.prefix_)),
      pending_(std::move(other.pending_)) {}

LinePipe::~LinePipe() {
  if (fd_ >= 0) close(fd_);
}

void LinePipe::read_some() {
  char buffer[65536];
  while (open()) {
    const ssize_t got = read(fd_, buffer, sizeof buffer);
    if (got > 0) {
      pending_.append(buffer, static_cast<std::size_t>(got));
      print_lines(false);
    } else if (got == 0) {
      finish();
    } else if (errno != EINTR) {
      if (errno != EAGAIN) finish();
      return;
    }
  }
}

void LinePipe::finish() {
  if (!open()) return;
  print_lines(true);
  close(std::exchange(fd_, -1));
}

void LinePipe::print_lines(bool last) {
  std::string text;
  std::size_t start = 0;
  for (std::size_t end; (end = pending_.find('\n', start)) != std::string::npos; start = end + 1) {
    text.append(prefix_).append(pending_, start, end - start + 1);
  }
  pending_.erase(0, start);
  if (!pending_.empty() && (last || pending_.size() >= kLongestLine)) {
    text.append(prefix_).append(pending_).append("\n");
    pending_.clear();
  }
  const int error = write_all(target_, text);
  if (error != 0) write_error_ = error;
}

}  // namespace stepgate::command

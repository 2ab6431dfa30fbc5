#include "integration/command/run/output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string_view>
#include <utility>

namespace stepgate::command {
namespace {

// A line without an end is cut here, so that a rank that prints no newline costs bounded memory.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

// More than the largest pipe holds; a writer that never pauses must not keep the launcher here.
constexpr int kMostReads = 20;

// A pipe that is writable takes this much without blocking.
constexpr std::size_t kPiece = PIPE_BUF;

bool writable(int fd) {
  pollfd wait{fd, POLLOUT, 0};
  return poll(&wait, 1, 0) > 0;
}

}  // namespace

void Output::add(std::string_view text) {
  waiting_.append(text);
  write_some();
}

void Output::write_some() {
  std::string_view left = waiting_;
  while (!left.empty() && writable(fd_)) {
    const ssize_t written = write(fd_, left.data(), std::min(left.size(), kPiece));
    if (written >= 0) {
      left.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      error_ = errno;
      left = {};
    }
  }
  waiting_.erase(0, waiting_.size() - left.size());
}

LinePipe::LinePipe(int fd, Output& target, std::string prefix)
    : fd_(fd), target_(&target), prefix_(std::move(prefix)) {}

LinePipe::LinePipe(LinePipe&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      target_(other.target_),
      prefix_(std::move(other.prefix_)),
      pending_(std::move(other.pending_)) {}

LinePipe::~LinePipe() {
  if (fd_ >= 0) close(fd_);
}

void LinePipe::read_some() {
  char buffer[65536];
  for (int reads = 0; open() && !target_->blocked() && reads < kMostReads; ++reads) {
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
  target_->add(text);
}

}  // namespace stepgate::command

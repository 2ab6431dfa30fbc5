// Turns the bytes of one rank's pipe into whole lines with the rank in front.
//
// Thread: the launcher's only one. Order: read_some() while the pipe is readable, then finish().
// Lock: none. Ownership: owns the pipe's read end.
#pragma once

#include <string>

namespace stepgate::command {

class LinePipe {
 public:
  // fd: non-blocking read end, owned from here on. target: where lines go (1 or 2), not owned.
  LinePipe(int fd, int target, std::string prefix);
  LinePipe(LinePipe&& other) noexcept;
  LinePipe(const LinePipe&) = delete;
  LinePipe& operator=(const LinePipe&) = delete;
  LinePipe& operator=(LinePipe&&) = delete;
  ~LinePipe();

  int fd() const { return fd_; }  // -1 after the end
  bool open() const { return fd_ >= 0; }
  // Reads what is there and prints the lines that are complete.
  void read_some();
  // Prints what is left of an unfinished line and closes the pipe.
  void finish();
  // Why the target did not take something, an errno; 0: it took all. Lines after it are tried again.
  int write_error() const { return write_error_; }
  int target() const { return target_; }

 private:
  void print_lines(bool last);

  int fd_;
  int target_;
  int write_error_ = 0;
  std::string prefix_;
  std::string pending_;
};

}  // namespace stepgate::command

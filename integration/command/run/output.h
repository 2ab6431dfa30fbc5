// Turns the bytes of the ranks' pipes into whole lines with the rank in front, on a target that may be
// slow, broken or gone.
//
// Thread: the launcher's only one; nothing here blocks. Order: add() and read_some() at any time,
// write_some() while blocked() and the target is writable. Lock: none. Ownership: an Output borrows its
// target's descriptor and outlives its LinePipes; a LinePipe owns its pipe's read end.
#pragma once

#include <string>
#include <string_view>

namespace stepgate::command {

class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  int fd() const { return fd_; }
  // The target takes nothing at the moment: whoever produces lines should wait.
  bool blocked() const { return !waiting_.empty(); }
  void add(std::string_view text);
  void write_some();
  // Why the target did not take something, an errno; 0: it took all. Later lines are tried again.
  int error() const { return error_; }

 private:
  int fd_;
  int error_ = 0;
  std::string waiting_;
};

class LinePipe {
 public:
  // fd: non-blocking read end, owned from here on.
  LinePipe(int fd, Output& target, std::string prefix);
  LinePipe(LinePipe&& other) noexcept;
  LinePipe(const LinePipe&) = delete;
  LinePipe& operator=(const LinePipe&) = delete;
  LinePipe& operator=(LinePipe&&) = delete;
  ~LinePipe();

  int fd() const { return fd_; }  // -1 after the end
  bool open() const { return fd_ >= 0; }
  const Output& target() const { return *target_; }
  // Reads what is there, until the target is blocked, and prints the lines that are complete.
  void read_some();
  // Prints what is left of an unfinished line and closes the pipe.
  void finish();

 private:
  void print_lines(bool last);

  int fd_;
  Output* target_;
  std::string prefix_;
  std::string pending_;
};

}  // namespace stepgate::command

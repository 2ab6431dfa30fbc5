// Stale files: those that ranks left behind which ended without a chance to remove them.
//
// A file of a rank that lives is locked by it (flock on the file itself, released by the kernel however the
// process ends). sweep() removes files of ours that nobody holds. Only files that carry this host's name
// are touched: in a folder that hosts share, locks of another one may not be seen.
//
// Thread: any. Two sweeps at once are harmless. Ownership: HeldFile owns a descriptor and so the lock; a
// forked child that outlives its parent keeps holding it.
#pragma once

#include <string>
#include <utility>

namespace stepgate::metrics {

class HeldFile {
 public:
  HeldFile() = default;
  explicit HeldFile(int fd) : fd_(fd) {}
  ~HeldFile() { release(); }
  HeldFile(HeldFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  HeldFile& operator=(HeldFile&& other) noexcept;

  int fd() const { return fd_; }
  void release();

 private:
  int fd_ = -1;
};

// Removes the file at `path` if it is the one behind `fd`, and not what somebody else put there since.
bool remove_if_same(int fd, const std::string& path);

// Removes files "stepgate_*<ending>" of `dir` that contain `mark` and that nobody holds. Returns how many.
int sweep_stale_files(const std::string& dir, const std::string& ending, const std::string& mark);

}  // namespace stepgate::metrics

#include "collectives/ucx/shared_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <string>

namespace stepgate::transport {

SharedPages::~SharedPages() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

bool SharedPages::make(size_t bytes) {
  memory_ = Fd(memfd_create("stepgate-mailbox", MFD_CLOEXEC));
  return memory_.open() && posix_fallocate(memory_.get(), 0, static_cast<off_t>(bytes)) == 0 &&
         map(memory_, bytes);
}

bool SharedPages::open(int64_t process, int descriptor, size_t bytes) {
  if (descriptor < 0) return false;
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(descriptor);
  const Fd memory(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  return memory.open() && fstat(memory.get(), &info) == 0 && S_ISREG(info.st_mode) &&
         info.st_size == static_cast<off_t>(bytes) && map(memory, bytes);
}

bool SharedPages::map(const Fd& memory, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (data == MAP_FAILED) return false;
  data_ = static_cast<std::byte*>(data);
  bytes_ = bytes;
  return madvise(data, bytes, MADV_DONTFORK) == 0;
}

}  // namespace stepgate::transport

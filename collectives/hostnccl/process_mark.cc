#include "collectives/hostnccl/process_mark.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

namespace stepgate::hostnccl {

ProcessMark::ProcessMark() : process_(getpid()) {
  const auto length = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* page = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, length, MADV_WIPEONFORK) != 0) {
    munmap(page, length);
    return;
  }
  *static_cast<char*>(page) = 1;
  byte_ = static_cast<char*>(page);
}

bool ProcessMark::here() const {
  return byte_ != nullptr ? *byte_ == 1 : getpid() == process_;
}

}  // namespace stepgate::hostnccl

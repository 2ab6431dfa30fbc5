// Tells the process that made it from its forked children, without a system call: a byte of memory that the
// kernel gives a child as 0 (MADV_WIPEONFORK). Where it does not, the process number is asked for.
//
// Thread: any, at any moment. Order, lock: none. Ownership: never unmapped.
#pragma once

#include <sys/types.h>

namespace stepgate::hostnccl {

class ProcessMark {
 public:
  ProcessMark();

  bool here() const;
  pid_t process() const { return process_; }

 private:
  const pid_t process_;
  const volatile char* byte_ = nullptr;
};

}  // namespace stepgate::hostnccl

#include "tests/plugin/guest/forked_child.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace stepgate::test {
namespace {

// Whoever writes to memory that it shares with its parent dies of SIGSEGV.
void protect_shared_memory() {
  FILE* maps = std::fopen("/proc/self/maps", "r");
  if (maps == nullptr) _exit(3);
  std::vector<std::pair<unsigned long, unsigned long>> shared;
  char line[4096];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    char* at = line;
    const unsigned long from = std::strtoul(at, &at, 16);  // "FROM-TO RIGHTS ..."
    const unsigned long to = std::strtoul(at + 1, &at, 16);
    if (std::strncmp(at, " rw-s", 5) == 0) shared.emplace_back(from, to);
  }
  std::fclose(maps);
  for (const auto& [from, to] : shared) {
    if (mprotect(reinterpret_cast<void*>(from), to - from, PROT_READ) != 0) _exit(3);
  }
}

// Calls by which a process reaches another one, or takes from it what both hold.
constexpr int kForbidden[] = {
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendmmsg,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_recvmmsg,
    SYS_connect,
    SYS_accept,
    SYS_accept4,
    SYS_bind,
    SYS_listen,
    SYS_shutdown,
    SYS_epoll_ctl,
    SYS_epoll_wait,
    SYS_epoll_pwait,
    SYS_writev,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_unlink,
    SYS_unlinkat,
    SYS_rename,
    SYS_renameat,
    SYS_ftruncate,
    SYS_shmctl,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kill,
    SYS_truncate,
    SYS_setsockopt,
};

sock_filter statement(unsigned code, unsigned k) {
  return {static_cast<unsigned short>(code), 0, 0, k};
}
sock_filter jump(unsigned code, unsigned k, unsigned char yes, unsigned char no) {
  return {static_cast<unsigned short>(code), yes, no, k};
}

// write() is allowed to standard output and error alone.
void forbid_calls() {
  constexpr unsigned kLoad = BPF_LD | BPF_W | BPF_ABS, kEqual = BPF_JMP | BPF_JEQ | BPF_K;
  std::vector<sock_filter> program = {statement(kLoad, offsetof(seccomp_data, nr))};
  for (const int call : kForbidden) {
    program.push_back(jump(kEqual, static_cast<unsigned>(call), 0, 1));
    program.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  }
  program.push_back(jump(kEqual, SYS_write, 0, 3));
  program.push_back(statement(kLoad, offsetof(seccomp_data, args)));
  program.push_back(jump(BPF_JMP | BPF_JGT | BPF_K, 2, 0, 1));
  program.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  program.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(3);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) _exit(3);
}

}  // namespace

void lock_in_child() {
  protect_shared_memory();
  forbid_calls();
}

}  // namespace stepgate::test

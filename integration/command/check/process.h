// What a running process has loaded, and how it reaches NCCL. Nothing in it is changed or stopped.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "integration/command/check/findings.h"
#include "plugin/survey/judge.h"

namespace stepgate::command {

struct MappedNccl {
  std::string path;
  std::string version;  // "" where the file does not say
};

struct ProcessFindings {
  pid_t pid = 0;
  std::string program;  // its command line
  std::string error;    // why it could not be looked at; "" where it could
  std::string plugin;   // the mapped libstepgate.so, or ""
  std::vector<MappedNccl> nccl;
  std::vector<std::string> hooked;   // objects whose calls go through the hooks
  std::vector<std::string> pending;  // objects that have not called yet
  std::vector<survey::Finding> missed;
  // Something of it has to do with NCCL.
  bool concerned() const { return !nccl.empty() || !hooked.empty() || !missed.empty() || !pending.empty(); }
};

ProcessFindings look_at_process(pid_t pid);
// Rows of the table about it. own_plugin: the one beside this command.
std::vector<Line> judge_process(const ProcessFindings& found, const std::string& own_plugin);

}  // namespace stepgate::command

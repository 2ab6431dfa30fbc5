// What the ranks of a launcher need in their environment, and the ways to write it down.
//
// Thread: any. Order, lock: none. Ownership: values. Only plan_environment() looks at files and at this
// process's environment; the others are pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "integration/command/run/environment.h"

namespace stepgate::command {

enum class Launcher { kTorchrun, kMpirun, kSrun };

struct EnvOptions {
  Launcher launcher = Launcher::kTorchrun;
  std::string mode;  // empty: stays as it is
  std::vector<std::pair<std::string, std::string>> settings;
  std::string plugin_path;  // empty: of the installation
  std::string nccl = "system";
};

// How a variable meets one that is set already.
enum class Kind {
  kSet,      // replaces it
  kDefault,  // only where it is not set
  kAppend,   // behind it, in a list with colons
  kPrepend   // in front of it
};

struct EnvVariable {
  std::string name;
  std::string value;
  Kind kind = Kind::kSet;
};

struct EnvPlan {
  Launcher launcher = Launcher::kTorchrun;
  std::vector<EnvVariable> variables;
  std::vector<std::string> notes;
  // StepGate's variables that this process's environment holds already: mpirun hands on only what is named.
  std::vector<std::pair<std::string, std::string>> inherited;
};

const char* launcher_name(Launcher launcher);

EnvPlan plan_environment(const EnvOptions& options, const Installation& installation);
// For eval by sh, bash, dash, zsh. Running it twice changes nothing.
std::string as_shell(const EnvPlan& plan);
// Options of mpirun or srun, to be used unquoted: `mpirun $(stepgate env mpirun --args) ...`. Lists are
// joined with what `environment` holds. Throws std::runtime_error where a value cannot be written so.
std::string as_arguments(const EnvPlan& plan, const Environment& environment);
std::string as_json(const EnvPlan& plan);

}  // namespace stepgate::command

#include "integration/command/env/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "integration/command/shell_quoting.h"

namespace stepgate::command {
namespace {

constexpr const char* kAsanNote =
    "A program built with a sanitizer wants its runtime first: if LD_PRELOAD is empty here, put "
    "$(cc -print-file-name=libasan.so) into it before these lines.";

std::string launcher_note(Launcher launcher) {
  switch (launcher) {
    case Launcher::kTorchrun:
      return "torchrun hands its environment to the ranks that it starts: run these lines on every node.";
    case Launcher::kMpirun:
      return "mpirun hands its environment to ranks on this machine alone. For other nodes name the "
             "variables to it as well: mpirun $(stepgate env mpirun --args) ... (MPICH's hands on all).";
    case Launcher::kSrun:
      return "srun hands its environment to the ranks on all nodes, unless the job was submitted with "
             "--export=NONE: then srun $(stepgate env srun --args) ...";
  }
  return "";
}

std::vector<std::pair<std::string, std::string>> inherited_settings() {
  std::vector<std::pair<std::string, std::string>> found;
  for (const std::string& entry : Environment::inherited().strings()) {
    const std::size_t equals = entry.find('=');
    if (entry.starts_with("STEPGATE_")) found.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return found;
}

// A list grows once, however often the lines are run.
std::string list_lines(const EnvVariable& v) {
  const std::string set = "${" + v.name + "-}", colon = v.kind == Kind::kAppend ? set + ":" : ":" + set;
  const std::string grown =
      v.kind == Kind::kAppend ? "\"" + colon + "\"" + quoted(v.value) : quoted(v.value) + "\"" + colon + "\"";
  return "case \":" + set + ":\" in\n  *[:\\ ]" + quoted(v.value) + "[:\\ ]*) ;;\n  ::) " + v.name + "=" +
         quoted(v.value) + " ;;\n  *) " + v.name + "=" + grown + " ;;\nesac\nexport " + v.name + "\n";
}

std::string shell_lines(const EnvVariable& v) {
  switch (v.kind) {
    case Kind::kSet: return "export " + v.name + "=" + quoted(v.value) + "\n";
    case Kind::kDefault: return "export " + v.name + "=\"${" + v.name + "-" + v.value + "}\"\n";
    case Kind::kAppend:
    case Kind::kPrepend: return list_lines(v);
  }
  return "";
}

std::string value_of(const Environment& environment, const std::string& name, bool* found) {
  for (const std::string& entry : environment.strings()) {
    if (!entry.starts_with(name + "=")) continue;
    *found = true;
    return entry.substr(name.size() + 1);
  }
  *found = false;
  return "";
}

bool holds(const std::string& list, const std::string& item) {
  std::size_t at = 0;
  while (at <= list.size()) {
    const std::size_t end = std::min(list.find_first_of(": ", at), list.size());
    if (list.substr(at, end - at) == item) return true;
    at = end + 1;
  }
  return false;
}

std::string joined(const EnvVariable& v, const Environment& environment) {
  bool found = false;
  std::string now = value_of(environment, v.name, &found);
  if (v.kind == Kind::kSet) return v.value;
  if (v.kind == Kind::kDefault) return found ? now : v.value;
  if (now.empty()) return v.value;
  if (holds(now, v.value)) return now;
  return v.kind == Kind::kAppend ? now + ":" + v.value : v.value + ":" + now;
}

// The shell splits and expands what it takes from a command; srun splits at commas.
void check_argument(const std::string& name, const std::string& value, bool srun) {
  const char* const forbidden = srun ? " \t\n*?[\\'\"," : " \t\n*?[\\'\"";
  if (value.find_first_of(forbidden) == std::string::npos) return;
  throw std::runtime_error(name + "='" + value + "' cannot stand in --args; allowed: no white space, no " +
                           std::string(srun ? "comma, " : "") +
                           "quote, backslash or wildcard. Export it by hand, or use the lines for eval");
}

bool in_plan(const EnvPlan& plan, const std::string& name) {
  return std::any_of(plan.variables.begin(), plan.variables.end(),
                     [&](const EnvVariable& v) { return v.name == name; });
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::kSet: return "set";
    case Kind::kDefault: return "default";
    case Kind::kAppend: return "append";
    case Kind::kPrepend: return "prepend";
  }
  return "";
}

}  // namespace

const char* launcher_name(Launcher launcher) {
  switch (launcher) {
    case Launcher::kTorchrun: return "torchrun";
    case Launcher::kMpirun: return "mpirun";
    case Launcher::kSrun: return "srun";
  }
  return "";
}

EnvPlan plan_environment(const EnvOptions& options, const Installation& installation) {
  EnvPlan plan;
  plan.launcher = options.launcher;
  plan.notes = {launcher_note(options.launcher)};
  const auto add = [&](std::string name, std::string value, Kind kind) {
    plan.variables.push_back({std::move(name), std::move(value), kind});
  };
  if (installation.sanitizer_runtime.empty()) {
    plan.notes.emplace_back(kAsanNote);
  } else {
    plan.notes.emplace_back(
        "This StepGate is built with a sanitizer, whose runtime goes to the front of LD_PRELOAD.");
    add("LD_PRELOAD", installation.sanitizer_runtime, Kind::kPrepend);
  }
  add("LD_PRELOAD", library_to_preload(options.plugin_path, installation), Kind::kAppend);
  const std::string folder = nccl_folder(options.nccl, installation);
  if (!folder.empty()) add("LD_LIBRARY_PATH", folder, Kind::kPrepend);
  // UCX reads these when it is loaded. Under mpirun the job's own MPI may be on UCX, with a registration
  // cache that needs memory events: the plugin leaves that one alone there as well.
  for (const DefaultSetting& setting : safe_ucx_settings()) {
    const bool for_mpi =
        options.launcher == Launcher::kMpirun && std::string(setting.name) == "UCX_MEM_EVENTS";
    if (!for_mpi) add(setting.name, setting.value, Kind::kDefault);
  }
  if (!options.mode.empty()) add("STEPGATE_MODE", options.mode, Kind::kSet);
  for (const auto& [name, value] : options.settings) add(name, value, Kind::kSet);
  plan.inherited = inherited_settings();
  return plan;
}

std::string as_shell(const EnvPlan& plan) {
  const std::string name = launcher_name(plan.launcher);
  std::string text =
      "# StepGate " STEPGATE_COMMAND_VERSION " under " + name + ": eval \"$(stepgate env " + name + ")\"\n";
  for (const std::string& note : plan.notes) text += "# " + note + "\n";
  for (const EnvVariable& v : plan.variables) text += shell_lines(v);
  return text;
}

std::string as_arguments(const EnvPlan& plan, const Environment& environment) {
  const bool srun = plan.launcher == Launcher::kSrun;
  Environment growing = environment;
  std::vector<std::pair<std::string, std::string>> all;
  for (const EnvVariable& v : plan.variables) {
    const std::string value = joined(v, growing);
    growing.set(v.name, value);
    std::erase_if(all, [&](const auto& known) { return known.first == v.name; });
    all.emplace_back(v.name, value);
  }
  for (const auto& setting : plan.inherited) {
    if (!in_plan(plan, setting.first)) all.push_back(setting);
  }
  std::string text = srun ? "--export=ALL" : "";
  for (const auto& [name, value] : all) {
    check_argument(name, value, srun);
    text += srun ? "," : text.empty() ? "-x " : " -x ";
    text += name;
    text += "=" + value;
  }
  return text + "\n";
}

std::string as_json(const EnvPlan& plan) {
  using nlohmann::ordered_json;
  ordered_json variables = ordered_json::array();
  for (const EnvVariable& v : plan.variables) {
    variables.push_back({{"name", v.name}, {"value", v.value}, {"how", kind_name(v.kind)}});
  }
  const ordered_json all = {
      {"launcher", launcher_name(plan.launcher)}, {"variables", variables}, {"notes", plan.notes}};
  return all.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace stepgate::command

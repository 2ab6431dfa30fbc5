// What was found in a process, as rows of the table.
#include <filesystem>

#include "integration/command/check/process.h"

namespace stepgate::command {
namespace {

std::string listed(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : ", ") + path;
  return text;
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a, b, ignored);
}

Line plugin_line(const ProcessFindings& found, const std::string& own_plugin) {
  if (found.plugin.empty()) {
    return {"preload", State::kWrong, "the plugin is not loaded in this process",
            "start it under stepgate run, or after eval \"$(stepgate env)\" (mpirun, srun: see stepgate env "
            "--help); a program with more rights than its caller ignores LD_PRELOAD"};
  }
  if (!same_file(found.plugin, own_plugin)) {
    return {"preload", State::kNote, found.plugin + ", not the one of this command, " + own_plugin,
            "nothing, if that is meant; else put the other path into LD_PRELOAD"};
  }
  return {"preload", State::kOk, found.plugin};
}

std::vector<Line> nccl_lines(const ProcessFindings& found) {
  std::vector<Line> lines;
  for (const MappedNccl& nccl : found.nccl) {
    lines.push_back({"nccl", State::kOk, (nccl.version.empty() ? "" : nccl.version + " at ") + nccl.path});
  }
  if (lines.empty()) {
    lines.push_back({"nccl", State::kNote, "no object of this process exports NCCL's functions",
                     "look again once the program has made its communicators"});
  }
  return lines;
}

std::vector<Line> hook_lines(const ProcessFindings& found) {
  std::vector<Line> lines;
  for (const survey::Finding& f : found.missed) lines.push_back({"hooks", State::kWrong, f.text, f.remedy});
  if (!found.hooked.empty()) {
    lines.push_back({"hooks", State::kOk, "catch the calls of " + listed(found.hooked)});
  }
  if (!found.pending.empty()) {
    const bool loaded = !found.plugin.empty();
    lines.push_back({"hooks", State::kNote,
                     listed(found.pending) + (loaded ? " has not called NCCL yet; nothing goes past the hooks"
                                                     : " uses NCCL without the plugin"),
                     loaded ? "look again once it has" : "preload the plugin, see above"});
  }
  return lines;
}

}  // namespace

std::vector<Line> judge_process(const ProcessFindings& found, const std::string& own_plugin) {
  std::vector<Line> lines = {
      {"process", State::kOk,
       std::to_string(found.pid) + (found.program.empty() ? "" : ": " + found.program)}};
  if (!found.error.empty()) {
    lines.back() = {"process", State::kWrong, std::to_string(found.pid) + ": " + found.error,
                    "run stepgate check as the process's user or root, on its machine and in its container"};
    return lines;
  }
  lines.push_back(plugin_line(found, own_plugin));
  for (Line& line : nccl_lines(found)) lines.push_back(std::move(line));
  for (Line& line : hook_lines(found)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace stepgate::command

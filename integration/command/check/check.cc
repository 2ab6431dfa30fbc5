#include "integration/command/check/check.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include "integration/command/check/judge.h"
#include "integration/command/check/look.h"
#include "integration/command/check/options.h"
#include "integration/command/check/port.h"
#include "integration/command/check/report.h"
#include "integration/command/check/settings.h"
#include "integration/command/check/trace.h"
#include "integration/command/run/environment.h"
#include "integration/command/streams.h"

namespace stepgate::command {
namespace {

// As a launcher's rank would get it.
std::vector<std::string> environment_with_plugin(const Installation& installation) {
  Environment environment = Environment::inherited();
  environment.append("LD_PRELOAD", library_to_preload("", installation));
  if (!installation.sanitizer_runtime.empty()) {
    environment.prepend("LD_PRELOAD", installation.sanitizer_runtime);
  }
  for (const DefaultSetting& setting : safe_ucx_settings())
    environment.set_default(setting.name, setting.value);
  return environment.strings();
}

Line ending_line(const TraceResult& result, double seconds) {
  if (result.ended_by_us) {
    return {"program", State::kNote,
            "still ran after " + std::to_string(static_cast<int>(seconds)) + " s and was ended",
            "give it more with --seconds if it had not made its communicators yet"};
  }
  if (result.status == 0) return {"program", State::kOk, "ended with status 0"};
  return {"program", State::kNote, "ended with status " + std::to_string(result.status),
          "see what it wrote above"};
}

std::vector<ProcessFindings> look_at_processes(const CheckOptions& options, const Installation& installation,
                                               std::vector<Line>* lines) {
  if (options.pid != 0) return {look_at_process(options.pid)};
  if (options.program.empty()) return {};
  TraceResult result = trace_program(options.program, environment_with_plugin(installation), options.seconds);
  lines->push_back(ending_line(result, options.seconds));
  return std::move(result.processes);
}

}  // namespace

int check_main(const std::vector<std::string_view>& words) {
  const CheckOptions options = parse_check_options(words);
  if (options.help) {
    print(check_help());
    return 0;
  }
  const Installation installation = find_installation();
  // Before STEPGATE_MODE is set here.
  const Settings settings = look_at_settings();
  // Now, for it forks: looking at the machine opens the driver.
  std::vector<Line> process_lines;
  const std::vector<ProcessFindings> processes = look_at_processes(options, installation, &process_lines);
  // Looking at NCCL opens it here, and a shell may have the plugin preloaded into this command as well.
  setenv("STEPGATE_MODE", "off", 1);
  const std::filesystem::path plugin = installation.plugin;
  const Findings found = look_at_machine(plugin.parent_path().string());
  std::vector<Line> lines = judge(found);
  lines.insert(lines.end(), settings.lines.begin(), settings.lines.end());
  if (!settings.refused) {
    for (Line& line : look_at_port(settings.configuration)) lines.push_back(std::move(line));
  }
  for (Line& line : process_lines) lines.push_back(std::move(line));
  for (const ProcessFindings& process : processes) {
    for (Line& line : judge_process(process, installation.plugin)) lines.push_back(std::move(line));
  }
  print((options.as_json ? document(found, lines, processes) : table(found, lines)).c_str());
  return anything_wrong(lines) ? 1 : 0;
}

}  // namespace stepgate::command

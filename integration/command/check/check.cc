#include "integration/command/check/check.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "collectives/device/cuda/driver.h"
#include "integration/command/arguments.h"
#include "integration/command/check/device_code.h"
#include "integration/command/check/judge.h"
#include "integration/command/check/look.h"
#include "integration/command/run/environment.h"
#include "integration/command/streams.h"

namespace stepgate::command {
namespace {

using nlohmann::json;

constexpr const char* kHelp =
    "usage: stepgate check [--json]\n"
    "\n"
    "Says whether this machine and this build fit: the plugin's files, the kernels that it carries, the "
    "CUDA\n"
    "driver, each device, NCCL. Nothing runs on a device. Exit status: 0 all fits (host memory alone is\n"
    "fine), 1 something is wrong, 2 a wrong command line.\n"
    "\n"
    "  --json  the same for programs\n";

struct Request {
  bool help = false;
  bool as_json = false;
};

Request read_request(const std::vector<std::string_view>& words) {
  Request request;
  Arguments arguments(words);
  while (!arguments.done()) {
    const bool is_option = arguments.at_option();
    const std::string_view word = arguments.take();
    if (is_option && (word == "--help" || word == "-h")) {
      request.help = true;
    } else if (is_option && word == "--json") {
      arguments.no_value();
      request.as_json = true;
    } else {
      bad_value("what follows check", word, "--json, --help");
    }
  }
  return request;
}

std::string table(const Findings& found, const std::vector<Line>& lines) {
  std::string text = "StepGate " STEPGATE_COMMAND_VERSION "\n";
  for (const Line& line : lines) {
    std::string row = "  " + line.subject;
    row.resize(16, ' ');
    row += state_name(line.state);
    row.resize(23, ' ');
    text += row + line.text + "\n";
  }
  return text + "result: " + verdict(found, lines) + "\n";
}

json version_or_null(int version) {
  return version == 0 ? json(nullptr) : json(device::cuda::version_text(version));
}

json library(const NcclLibrary& nccl) {
  return {{"found", nccl.found},
          {"path", nccl.path},
          {"version", nccl.version == 0 ? json(nullptr) : json(nccl_version_text(nccl.version))}};
}

json devices(const Findings& found) {
  json list = json::array();
  for (const GpuDevice& gpu : found.driver.devices) {
    list.push_back(
        {{"ordinal", gpu.ordinal},
         {"name", gpu.name},
         {"capability", std::to_string(gpu.capability / 10) + "." + std::to_string(gpu.capability % 10)},
         {"code", fitting_code(found.code, gpu.capability, found.driver.version)}});
  }
  return list;
}

std::string document(const Findings& found, const std::vector<Line>& lines) {
  json checks = json::array();
  for (const Line& line : lines) {
    checks.push_back({{"subject", line.subject}, {"state", state_name(line.state)}, {"text", line.text}});
  }
  const json all = {
      {"version", STEPGATE_COMMAND_VERSION},
      {"ok", !anything_wrong(lines)},
      {"result", verdict(found, lines)},
      {"device_code",
       {{"present", found.code.present},
        {"cuda", version_or_null(found.code.cuda)},
        {"architectures", found.code.architectures},
        {"ptx", found.code.ptx == 0 ? json(nullptr) : json(found.code.ptx)}}},
      {"driver",
       {{"found", found.driver.found},
        {"cuda", version_or_null(found.driver.version)},
        {"kernel_module", found.driver.kernel_module},
        {"error", found.driver.error}}},
      {"devices", devices(found)},
      {"nccl", library(found.nccl)},
      {"host_nccl", library(found.host_nccl)},
      {"checks", checks},
  };
  return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

int check_main(const std::vector<std::string_view>& words) {
  const Request request = read_request(words);
  if (request.help) {
    print(kHelp);
    return 0;
  }
  const std::filesystem::path plugin = find_installation().plugin;
  const Findings found = look_at_machine(plugin.parent_path().string());
  const std::vector<Line> lines = judge(found);
  print((request.as_json ? document(found, lines) : table(found, lines)).c_str());
  return anything_wrong(lines) ? 1 : 0;
}

}  // namespace stepgate::command

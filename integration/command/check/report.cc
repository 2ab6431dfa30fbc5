#include "integration/command/check/report.h"

#include <nlohmann/json.hpp>

#include "collectives/device/cuda/driver.h"
#include "integration/command/check/device_code.h"
#include "integration/command/check/judge.h"

namespace stepgate::command {
namespace {

using nlohmann::json;

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

json process(const ProcessFindings& found) {
  json nccl = json::array(), missed = json::array();
  for (const MappedNccl& n : found.nccl) {
    nccl.push_back({{"path", n.path}, {"version", n.version.empty() ? json(nullptr) : json(n.version)}});
  }
  for (const survey::Finding& f : found.missed) {
    missed.push_back({{"cause", survey::kCauseNames[static_cast<std::size_t>(f.cause)]},
                      {"object", f.object},
                      {"text", f.text},
                      {"remedy", f.remedy}});
  }
  return {{"pid", found.pid},
          {"program", found.program},
          {"error", found.error.empty() ? json(nullptr) : json(found.error)},
          {"plugin", found.plugin.empty() ? json(nullptr) : json(found.plugin)},
          {"nccl", nccl},
          {"hooked", found.hooked},
          {"pending", found.pending},
          {"missed", missed}};
}

}  // namespace

std::string table(const Findings& found, const std::vector<Line>& lines) {
  std::string text = "StepGate " STEPGATE_COMMAND_VERSION "\n";
  for (const Line& line : lines) {
    std::string row = "  " + line.subject;
    row.resize(16, ' ');
    row += state_name(line.state);
    row.resize(23, ' ');
    text += row + line.text + "\n";
    if (!line.remedy.empty()) text += std::string(23, ' ') + "-> " + line.remedy + "\n";
  }
  return text + "result: " + verdict(found, lines) + "\n";
}

std::string document(const Findings& found, const std::vector<Line>& lines,
                     const std::vector<ProcessFindings>& processes) {
  json checks = json::array();
  for (const Line& line : lines) {
    checks.push_back({{"subject", line.subject},
                      {"state", state_name(line.state)},
                      {"text", line.text},
                      {"remedy", line.remedy.empty() ? json(nullptr) : json(line.remedy)}});
  }
  json list = json::array();
  for (const ProcessFindings& p : processes) list.push_back(process(p));
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
      {"processes", list},
      {"checks", checks},
  };
  return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace stepgate::command

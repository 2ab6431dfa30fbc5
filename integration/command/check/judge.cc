#include "integration/command/check/judge.h"

#include <algorithm>

#include "collectives/device/cuda/driver.h"
#include "integration/command/check/device_code.h"

namespace stepgate::command {
namespace {

using device::cuda::oldest_driver;
using device::cuda::version_text;

bool has_gpu(const Findings& found) {
  return !found.driver.devices.empty();
}

Line plugin_line(const Findings& found) {
  if (found.missing.empty()) return {"plugin", State::kOk, "in " + found.folder};
  std::string text = "not in " + found.folder + ":";
  for (const std::string& name : found.missing) text += " " + name;
  return {"plugin", State::kWrong, text, "build or unpack StepGate whole: its bin and lib side by side"};
}

Line code_line(const Findings& found) {
  const DeviceCode& code = found.code;
  if (!code.present && !found.missing.empty())
    return {"device code", State::kNote, "unknown: no plugin to look into", "see above"};
  if (!code.present) {
    const char* text = "none in this build (no nvcc, or STEPGATE_CUDA=OFF): host memory only";
    return {"device code", has_gpu(found) ? State::kWrong : State::kNote, text,
            "for GPUs build with a CUDA toolkit, -DSTEPGATE_CUDA=ON"};
  }
  std::string text = "CUDA " + version_text(code.cuda) + ":";
  for (const int architecture : code.architectures) text += " sm_" + std::to_string(architecture);
  if (code.ptx > 0) text += ", PTX of compute_" + std::to_string(code.ptx);
  return {"device code", State::kOk, text};
}

std::string too_old_text(const Findings& found) {
  const int needed = found.code.cuda / 1000 * 1000;
  std::string text = "offers CUDA " + version_text(found.driver.version) +
                     ", but the kernels of this build need CUDA " + std::to_string(needed / 1000);
  const std::string oldest = oldest_driver(needed);
  if (!oldest.empty()) text += " (driver " + oldest + " or newer)";
  text += ": update the driver";
  const int have = found.driver.version / 1000;
  // What is older than our own list of driver functions cannot be served by any build.
  if (*oldest_driver(have * 1000) != '\0')
    text += "; as it is, it needs a build with CUDA " + std::to_string(have);
  return text;
}

bool driver_too_old(const Findings& found) {
  return found.code.present && found.driver.version / 1000 < found.code.cuda / 1000;
}

Line driver_line(const Findings& found) {
  const CudaDriver& driver = found.driver;
  if (!driver.found)
    return {"driver", State::kNote, "no libcuda.so.1 on this machine",
            "nothing for host memory; for GPUs install NVIDIA's driver"};
  if (driver.without_gpu)
    return {"driver", State::kNote, "libcuda.so.1 is here, but no device",
            "nothing for host memory; for GPUs see nvidia-smi, and that a container was given its devices"};
  if (!driver.error.empty())
    return {"driver", State::kWrong, driver.error, "repair the driver first, until nvidia-smi works"};
  if (driver_too_old(found)) {
    return {"driver", State::kWrong, too_old_text(found),
            "update the driver, or build StepGate with an older CUDA toolkit"};
  }
  std::string text = "offers CUDA " + version_text(driver.version);
  if (!driver.kernel_module.empty()) text += " (kernel module " + driver.kernel_module + ")";
  return {"driver", State::kOk, text};
}

Line device_line(const Findings& found, const GpuDevice& gpu) {
  Line line{"device " + std::to_string(gpu.ordinal), State::kOk, gpu.name + ", compute capability "};
  line.text += std::to_string(gpu.capability / 10) + "." + std::to_string(gpu.capability % 10);
  if (!found.code.present) return line;
  const std::string code = fitting_code(found.code, gpu.capability, found.driver.version);
  if (!code.empty() && driver_too_old(found)) {
    line.text += ", has " + code + " once the driver is new enough";
    line.state = State::kNote;
    return line;
  }
  if (!code.empty()) {
    line.text += ", runs " + code;
    return line;
  }
  line.state = State::kWrong;
  line.text += ": no kernels of this build fit it";
  line.remedy = "build with a CUDA toolkit that knows this device";
  return line;
}

// A program of Python's brings an NCCL of its own, so that none here is no fault.
Line nccl_line(const Findings& found) {
  if (!found.nccl.found) {
    return {"nccl", State::kNote, "no libnccl.so.2 in the loader's search; a job may bring its own",
            "nothing where it does (stepgate check -- PROGRAM shows it); else put its folder into "
            "LD_LIBRARY_PATH, or use stepgate run --nccl host"};
  }
  return {"nccl", State::kOk, nccl_version_text(found.nccl.version) + " at " + found.nccl.path};
}

Line host_nccl_line(const Findings& found) {
  if (found.host_nccl.found) return {"host nccl", State::kOk, "at " + found.host_nccl.path};
  const State state = has_gpu(found) || found.nccl.found ? State::kNote : State::kWrong;
  return {"host nccl", state, "not at " + found.host_nccl.path,
          "build or unpack StepGate whole; GPU jobs do without it"};
}

}  // namespace

std::vector<Line> judge(const Findings& found) {
  std::vector<Line> lines = {plugin_line(found), code_line(found), driver_line(found)};
  for (const GpuDevice& gpu : found.driver.devices) lines.push_back(device_line(found, gpu));
  lines.push_back(nccl_line(found));
  lines.push_back(host_nccl_line(found));
  return lines;
}

bool anything_wrong(const std::vector<Line>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const Line& l) { return l.state == State::kWrong; });
}

std::string verdict(const Findings& found, const std::vector<Line>& lines) {
  if (anything_wrong(lines)) return "something is wrong";
  return has_gpu(found) ? "GPU jobs can run here" : "host memory only";
}

const char* state_name(State state) {
  switch (state) {
    case State::kOk: return "ok";
    case State::kNote: return "note";
    case State::kWrong: return "wrong";
  }
  return "";
}

std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace stepgate::command

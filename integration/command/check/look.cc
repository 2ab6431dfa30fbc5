#include "integration/command/check/look.h"

#include <dlfcn.h>

#include <filesystem>
#include <fstream>

#include "collectives/device/cuda/driver.h"
#include "collectives/nccl_abi/nccl_abi.h"
#include "integration/command/check/device_code.h"

namespace stepgate::command {
namespace {

namespace fs = std::filesystem;
namespace cuda = device::cuda;

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun ..."
std::string kernel_module_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    const bool version = word.size() > 3 && word.find('.') != std::string::npos &&
                         word.find_first_not_of("0123456789.") == std::string::npos;
    if (version) return word;
  }
  return "";
}

GpuDevice look_at_device(const cuda::Driver& driver, int ordinal) {
  GpuDevice found{ordinal, "unknown", 0};
  cuda::DeviceId device = 0;
  if (driver.call(driver.api().DeviceGet, &device, ordinal) != cuda::Result::kSuccess) return found;
  char name[128] = "";
  if (driver.call(driver.api().DeviceGetName, name, static_cast<int>(sizeof name), device) ==
      cuda::Result::kSuccess) {
    found.name = name;
  }
  int major = 0;
  int minor = 0;
  const auto attribute = [&](int* value, cuda::DeviceAttribute which) {
    return driver.call(driver.api().DeviceGetAttribute, value, which, device) == cuda::Result::kSuccess;
  };
  if (attribute(&major, cuda::DeviceAttribute::kComputeCapabilityMajor) &&
      attribute(&minor, cuda::DeviceAttribute::kComputeCapabilityMinor)) {
    found.capability = major * 10 + minor;
  }
  return found;
}

// A file that is there but cannot be loaded counts: the driver's own error says what is wrong with it.
bool library_exists(const std::string& name) {
  if (dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return true;
  const char* why = dlerror();
  return why == nullptr || std::string(why).find("cannot open shared object file") == std::string::npos;
}

NcclLibrary file_only(const fs::path& path) {
  std::error_code ignored;
  return {.found = fs::is_regular_file(path, ignored), .path = path.string()};
}

}  // namespace

CudaDriver look_at_driver() {
  CudaDriver found;
  // Any release will do for a look; the table judges the version.
  const cuda::DriverOptions options{.needed_version = 0};
  found.found = library_exists(options.library);
  found.kernel_module = kernel_module_version();
  const auto driver = cuda::Driver::open(options, &found.error);
  if (driver == nullptr) {
    found.without_gpu = found.error.find("CUDA_ERROR_NO_DEVICE") != std::string::npos;
    return found;
  }
  found.version = driver->version();
  for (int i = 0; i < driver->device_count(); ++i) found.devices.push_back(look_at_device(*driver, i));
  found.without_gpu = found.devices.empty();
  return found;
}

NcclLibrary look_at_nccl() {
  NcclLibrary found;
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return found;
  found.found = true;
  void* function = dlsym(library, "ncclGetVersion");
  Dl_info where{};
  if (function == nullptr || dladdr(function, &where) == 0) return found;
  std::error_code ignored;
  const fs::path real = fs::canonical(where.dli_fname, ignored);
  found.path = real.empty() ? where.dli_fname : real.string();
  reinterpret_cast<decltype(&ncclGetVersion)>(function)(&found.version);
  return found;
}

Findings look_at_machine(const std::string& folder) {
  Findings found;
  found.folder = folder;
  for (const char* name : {"libstepgate.so", "libstepgate_core.so", "libstepgate_ucx.so"}) {
    if (!fs::exists(fs::path(folder) / name)) found.missing.emplace_back(name);
  }
  found.code = device_code_of(folder + "/libstepgate_core.so");
  found.driver = look_at_driver();
  found.nccl = look_at_nccl();
  found.host_nccl = file_only(fs::path(folder) / "hostnccl" / "libnccl.so.2");
  return found;
}

}  // namespace stepgate::command

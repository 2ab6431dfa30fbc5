#include "collectives/device/cuda/driver.h"

#include <dlfcn.h>

namespace stepgate::device::cuda {
namespace {

using GetProcAddress = Result (*)(const char* symbol, void** found, int version, std::uint64_t flags,
                                  SymbolStatus* status);

// Asks the driver itself first: dlsym sees names without their release.
class Finder {
 public:
  explicit Finder(void* library)
      : library_(library), ask_(reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"))) {}

  void* find(const char* name, const char* exported) const {
    void* found = nullptr;
    SymbolStatus status = SymbolStatus::kNotFound;
    if (ask_ != nullptr && ask_(name, &found, kAbiVersion, 0, &status) == Result::kSuccess &&
        status == SymbolStatus::kFound && found != nullptr) {
      return found;
    }
    return dlsym(library_, exported);
  }

  template <class Signature>
  bool fill(Function<Signature>& function, const char* name) const {
    void* found = find(name, function.name);
    function.address = reinterpret_cast<decltype(function.address)>(found);
    return found != nullptr;
  }

 private:
  void* library_;
  GetProcAddress ask_;
};

std::string missing_library(const std::string& library, const char* why) {
  // The loader's sentence begins with the name.
  return "the CUDA driver cannot be opened (" +
         (why != nullptr ? std::string(why) : library + ": no reason given") +
         "); install the NVIDIA driver, or run on host memory";
}

std::string too_old(int have, int needed) {
  const std::string driver = oldest_driver(needed);
  return "the CUDA driver offers CUDA " + version_text(have) + ", but the kernels of this build need CUDA " +
         version_text(needed) + (driver.empty() ? "" : " (driver " + driver + " or newer)") +
         "; update the driver, or build with the older CUDA toolkit";
}

}  // namespace

int built_version() noexcept {
  return STEPGATE_CUDA_MAJOR * 1000;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

const char* oldest_driver(int version) noexcept {
  switch (version / 1000) {
    case 12: return "525";
    case 13: return "580";
    default: return "";
  }
}

std::shared_ptr<Driver> Driver::open(const DriverOptions& options, std::string* error) {
  void* library = dlopen(options.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    *error = missing_library(options.library, dlerror());
    return nullptr;
  }
  std::shared_ptr<Driver> driver(new Driver);
  if (!driver->resolve(library, options.library, error) || !driver->start(options, error)) return nullptr;
  return driver;
}

bool Driver::resolve(void* library, std::string_view path, std::string* error) {
  const Finder finder(library);
  std::string missing;
  const auto need = [&missing](bool found, const char* name) {
    if (!found) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
#define STEPGATE_CUDA_FIND(NAME, SUFFIX, PARAMETERS) need(finder.fill(api_.NAME, "cu" #NAME), "cu" #NAME);
  STEPGATE_CUDA_REQUIRED(STEPGATE_CUDA_FIND)
#undef STEPGATE_CUDA_FIND
#define STEPGATE_CUDA_FIND(NAME, SUFFIX, PARAMETERS) finder.fill(api_.NAME, "cu" #NAME);
  STEPGATE_CUDA_OPTIONAL(STEPGATE_CUDA_FIND)
#undef STEPGATE_CUDA_FIND
  if (missing.empty()) return true;
  *error = "the CUDA driver " + std::string(path) + " lacks " + missing + "; it is older than driver " +
           oldest_driver(kAbiVersion) + ", or not NVIDIA's";
  return false;
}

bool Driver::start(const DriverOptions& options, std::string* error) {
  const auto failed = [&](const char* function, Result result) {
    *error = std::string("the CUDA driver does not start: ") + function + ": " + error_name(result) + " (" +
             std::to_string(static_cast<int>(result)) + ")";
    return false;
  };
  // The version needs no initialisation, and explains better than a failed cuInit does.
  if (const Result r = call(api_.DriverGetVersion, &version_); r != Result::kSuccess) {
    return failed("cuDriverGetVersion", r);
  }
  if (version_ < options.needed_version) {
    *error = too_old(version_, options.needed_version);
    return false;
  }
  if (const Result r = call(api_.Init, 0u); r != Result::kSuccess) return failed("cuInit", r);
  if (const Result r = call(api_.DeviceGetCount, &device_count_); r != Result::kSuccess) {
    return failed("cuDeviceGetCount", r);
  }
  return true;
}

const char* Driver::error_name(Result result) const noexcept {
  const char* text = nullptr;
  // Not through call(): the text of a failure is no part of what was done.
  if (api_.GetErrorName.address != nullptr && api_.GetErrorName.address(result, &text) == Result::kSuccess &&
      text != nullptr) {
    return text;
  }
  return "unknown CUDA error";
}

}  // namespace stepgate::device::cuda

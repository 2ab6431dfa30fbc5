#include "collectives/device/cuda/launch.h"

#include <cstring>

#include "collectives/device/cuda/error_text.h"
#include "collectives/device/cuda/kernels/fatbin.h"

namespace stepgate::device::cuda {
namespace {

constexpr const char* kNames[] = {
#define STEPGATE_CUDA_NAME(NAME, ARGUMENTS) #NAME,
    STEPGATE_CUDA_KERNELS(STEPGATE_CUDA_NAME)
#undef STEPGATE_CUDA_NAME
};

// What the driver's refusal of an image mostly means.
const char* image_hint(Result r) {
  switch (r) {
    case Result::kNoBinaryForGpu: return "; the kernels of this build do not cover this device";
    case Result::kUnsupportedPtxVersion: return "; the driver is older than the toolkit of this build";
    case Result::kInvalidImage: return "; the kernels of this build are damaged";
    default: return "";
  }
}

std::string load_error(const Driver& driver, const void* image, Result r) {
  const bool refused = *image_hint(r) != '\0';
  if (refused &&
      std::strncmp(static_cast<const char*>(image), kernels::kStubText, sizeof kernels::kStubText - 1) == 0) {
    return kNoKernels;
  }
  driver_failed(driver, "create", driver.api().ModuleLoadData.name, "", r);
  return std::string(last_text()) + image_hint(r);
}

}  // namespace

const char* kernel_name(Kernel kernel) noexcept {
  return kernel < Kernel::kCount ? kNames[static_cast<std::size_t>(kernel)] : "unknown kernel";
}

std::unique_ptr<KernelSet> KernelSet::load(const PrimaryContext& context, const void* image,
                                           std::string* error) {
  const Driver& driver = context.driver();
  std::unique_ptr<KernelSet> set(new KernelSet(context));
  const Result r = driver.call(driver.api().ModuleLoadData, &set->module_, image);
  if (r != Result::kSuccess) {
    set->module_ = nullptr;
    *error = load_error(driver, image, r);
    return nullptr;
  }
  return set->resolve(error) ? std::move(set) : nullptr;
}

KernelSet::~KernelSet() {
  if (module_ != nullptr) context_.driver().call(context_.driver().api().ModuleUnload, module_);
}

bool KernelSet::resolve(std::string* error) {
  const Driver& driver = context_.driver();
  const DriverApi& api = driver.api();
  for (std::size_t i = 0; i < functions_.size(); ++i) {
    int threads = 0;
    const char* function = api.ModuleGetFunction.name;
    Result r = driver.call(api.ModuleGetFunction, &functions_[i], module_, kNames[i]);
    if (r == Result::kSuccess) {
      function = api.FuncGetAttribute.name;  // an attribute is known of loaded functions only
      r = driver.call(api.FuncGetAttribute, &threads, FunctionAttribute::kMaxThreadsPerBlock, functions_[i]);
    }
    if (r == Result::kSuccess && api.FuncLoad.address != nullptr) {
      function = api.FuncLoad.name;
      r = driver.call(api.FuncLoad, functions_[i]);
    }
    if (r == Result::kSuccess) continue;
    driver_failed(driver, "create", function, kNames[i], r);
    *error = last_text();
    return false;
  }
  return true;
}

Code KernelSet::launch_bytes(const char* operation, Kernel kernel, Shape shape, Stream s,
                             const void* arguments) const noexcept {
  const Driver& driver = context_.driver();
  void* list[] = {const_cast<void*>(arguments)};
  const Result r = driver.call(driver.api().LaunchKernel, functions_[static_cast<std::size_t>(kernel)],
                               shape.blocks, 1u, 1u, shape.threads, 1u, 1u, 0u, static_cast<StreamHandle>(s),
                               list, static_cast<void**>(nullptr));
  if (r == Result::kSuccess) return Code::kOk;
  return driver_failed(driver, operation, driver.api().LaunchKernel.name, kernel_name(kernel), r);
}

}  // namespace stepgate::device::cuda

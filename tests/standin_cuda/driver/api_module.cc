// Modules and launches: any image is taken for the kernels that were compiled for the CPU.
#include <cstring>

#include "tests/standin_cuda/driver/api.h"
#include "tests/standin_cuda/driver/kernel_lookup.h"
#include "tests/standin_cuda/driver/world.h"

namespace stepgate::standin::api {
namespace {

constexpr unsigned kMaxBlock = 1024;

bool sane(unsigned grid, unsigned block_x, unsigned block_y, unsigned block_z) {
  return grid != 0 && block_x != 0 && block_x <= kMaxBlock && block_y == 1 && block_z == 1;
}

}  // namespace

Result ModuleLoadData(ModuleHandle* module, const void* image) {
  return entry("cuModuleLoadData", [&] {
    if (World::current() == nullptr) return Result::kInvalidContext;
    if (image == nullptr) return Result::kInvalidValue;
    if (const Result r = world().unsafe_now(); r != Result::kSuccess) return r;
    if (!world().options().knows_image) return Result::kNoBinaryForGpu;
    *module = world().create_module();
    return Result::kSuccess;
  });
}

Result ModuleUnload(ModuleHandle module) {
  return entry(
      "cuModuleUnload",
      [&] {
        if (!world().is_module(module)) return world().misuse(Result::kInvalidHandle);
        world().drain(module->context->device);
        return world().destroy_module(module);
      },
      true);
}

Result ModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  return entry("cuModuleGetFunction", [&] {
    if (!world().is_module(module)) return world().misuse(Result::kInvalidHandle);
    const CpuKernel* kernel = find_kernel(name);
    if (kernel == nullptr) return Result::kNotFound;
    module->functions.push_back(std::make_unique<CUfunc_st>(CUfunc_st{module->context, kernel}));
    *function = module->functions.back().get();
    return Result::kSuccess;
  });
}

Result FuncLoad(FunctionHandle function) {
  return entry("cuFuncLoad", [&] { return function != nullptr ? Result::kSuccess : Result::kInvalidHandle; });
}

Result FuncGetAttribute(int* value, FunctionAttribute attribute, FunctionHandle function) {
  return entry("cuFuncGetAttribute", [&] {
    if (function == nullptr) return Result::kInvalidHandle;
    *value = attribute == FunctionAttribute::kMaxThreadsPerBlock ? static_cast<int>(kMaxBlock) : 0;
    return Result::kSuccess;
  });
}

// The arguments are copied before the call returns, as CUDA does.
Result LaunchKernel(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                    StreamHandle handle, void** arguments, void** extra) {
  return entry("cuLaunchKernel", [&] {
    if (function == nullptr || extra != nullptr || grid_y != 1 || grid_z != 1 ||
        !sane(grid_x, block_x, block_y, block_z)) {
      return world().misuse(Result::kInvalidValue);
    }
    if (function->context != World::current()) return world().misuse(Result::kInvalidHandle);
    const auto* kernel = static_cast<const CpuKernel*>(function->kernel);
    auto copy = std::make_shared<std::vector<std::max_align_t>>(
        kernel->argument_bytes / sizeof(std::max_align_t) + 1);
    if (kernel->argument_bytes != 0) std::memcpy(copy->data(), arguments[0], kernel->argument_bytes);
    return world().push(world().stream(handle), [=] {
      const Access access(world().memory());
      kernel->run(grid_x, block_x, shared_bytes, copy->data());
      world().kernels_run.fetch_add(1, std::memory_order_relaxed);
    });
  });
}

}  // namespace stepgate::standin::api

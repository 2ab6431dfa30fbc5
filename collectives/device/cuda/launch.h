// KernelSet: the module with this project's kernels, loaded whole, and the one place that launches.
//
// Every function is resolved and loaded at creation: a driver that loads lazily would do it at the
// first launch, and could wait there for a stream that waits for us.
// Threads: create and destroy on the control path; launch from any thread, the context being current.
// Lock: none. Ownership: the PrimaryContext outlives the set; the set outlives every launch's work.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "collectives/device/cuda/context.h"
#include "collectives/device/cuda/kernels/arguments.h"

namespace stepgate::device::cuda {

// Device code's own namespace, whose last name is that of this one.
namespace kernels = ::stepgate::cuda;

enum class Kernel : std::uint32_t {
#define STEPGATE_CUDA_ENUM(NAME, ARGUMENTS) NAME,
  STEPGATE_CUDA_KERNELS(STEPGATE_CUDA_ENUM)
#undef STEPGATE_CUDA_ENUM
      kCount
};

// What a build without nvcc says of its image.
inline constexpr char kNoKernels[] =
    "CudaDevice: this build carries no CUDA kernels (it was configured without nvcc)";

const char* kernel_name(Kernel kernel) noexcept;

struct Shape {
  std::uint32_t blocks;
  std::uint32_t threads;
};

class KernelSet {
 public:
  // The context is current. `image`: a fatbin. nullptr with *error.
  static std::unique_ptr<KernelSet> load(const PrimaryContext& context, const void* image,
                                         std::string* error);
  ~KernelSet();
  KernelSet(const KernelSet&) = delete;
  KernelSet& operator=(const KernelSet&) = delete;

  // `arguments` is copied before this returns.
  template <class Arguments>
  Code launch(const char* operation, Kernel kernel, Shape shape, Stream s,
              const Arguments& arguments) const noexcept {
    return launch_bytes(operation, kernel, shape, s, &arguments);
  }

 private:
  explicit KernelSet(const PrimaryContext& context) : context_(context) {}
  bool resolve(std::string* error);
  Code launch_bytes(const char* operation, Kernel kernel, Shape shape, Stream s,
                    const void* arguments) const noexcept;

  const PrimaryContext& context_;
  ModuleHandle module_ = nullptr;
  std::array<FunctionHandle, static_cast<std::size_t>(Kernel::kCount)> functions_{};
};

}  // namespace stepgate::device::cuda

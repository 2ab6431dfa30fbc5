#include "tests/gpu/rivals.h"

#include <dlfcn.h>

#include <fstream>
#include <iterator>

#include "tests/gpu/baselines.h"

namespace stepgate::gpu {

using device::cuda::FunctionHandle;
using device::cuda::Result;

namespace {

constexpr std::size_t kScratchBytes = std::size_t{64} << 20;
constexpr unsigned kBlocksPerMultiprocessor = 8;

device::cuda::DevicePtr address(const void* p) {
  return static_cast<device::cuda::DevicePtr>(reinterpret_cast<std::uintptr_t>(p));
}

int kind_of(ElementType t) {
  switch (t) {
    case ElementType::kFp32: return 0;
    case ElementType::kFp16: return 1;
    case ElementType::kBf16: return 2;
    default: return -1;
  }
}

}  // namespace

Rivals::Rivals(Session& session, const Options& options)
    : session_(session),
      standin_(options.standin),
      out_(session, 256),
      scratch_(session, options.standin ? 256 : kScratchBytes) {
  if (standin_) return;
  std::ifstream file(options.baselines, std::ios::binary);
  image_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  const auto& api = session.driver().api();
  if (image_.empty() ||
      session.driver().call(api.ModuleLoadData, &module_, image_.data()) != Result::kSuccess) {
    give_up("the baseline kernels do not load: " + options.baselines);
  }
  read_4_ = find("baseline_read_4");
  read_8_ = find("baseline_read_8");
  copy_ = find("baseline_copy");
  int multiprocessors = 1;
  session.driver().call(api.DeviceGetAttribute, &multiprocessors,
                        device::cuda::DeviceAttribute::kMultiprocessorCount, 0);
  blocks_ = static_cast<unsigned>(multiprocessors) * kBlocksPerMultiprocessor;
  void* library = options.cub.empty() ? nullptr : dlopen(options.cub.c_str(), RTLD_NOW);
  void* found = library != nullptr ? dlsym(library, "stepgate_cub_sum") : nullptr;
  sum_ = reinterpret_cast<Sum>(found);
}

Rivals::~Rivals() {
  if (module_ != nullptr) session_.driver().call(session_.driver().api().ModuleUnload, module_);
}

FunctionHandle Rivals::find(const char* name) {
  FunctionHandle found = nullptr;
  const auto& api = session_.driver().api();
  if (session_.driver().call(api.ModuleGetFunction, &found, module_, name) != Result::kSuccess) {
    give_up(std::string("no kernel ") + name);
  }
  return found;
}

bool Rivals::launch(FunctionHandle function, const void* arguments) {
  void* list[] = {const_cast<void*>(arguments)};
  return session_.driver().call(session_.driver().api().LaunchKernel, function, blocks_, 1u, 1u,
                                kBaselineThreads, 1u, 1u, 0u, session_.handle(), list,
                                static_cast<void**>(nullptr)) == Result::kSuccess;
}

bool Rivals::read(const void* data, std::size_t bytes, int loads) {
  if (standin_) return driver_copy(out_.as<>(), data, 16);
  const ReadArguments a{data, bytes / 16, out_.as<unsigned>()};
  return launch(loads == 4 ? read_4_ : read_8_, &a);
}

bool Rivals::copy(void* to, const void* from, std::size_t bytes) {
  if (standin_) return driver_copy(to, from, 16);
  const CopyArguments a{from, to, bytes / 16};
  return launch(copy_, &a);
}

bool Rivals::driver_copy(void* to, const void* from, std::size_t bytes) {
  return session_.driver().call(session_.driver().api().MemcpyDtoDAsync, address(to), address(from), bytes,
                                session_.handle()) == Result::kSuccess;
}

bool Rivals::has_sum(ElementType t) const {
  return sum_ != nullptr && kind_of(t) >= 0;
}

bool Rivals::sum(ElementType t, const void* data, std::uint64_t count) {
  std::size_t bytes = scratch_.bytes();
  return sum_(kind_of(t), data, count, out_.as<>(), scratch_.as<>(), &bytes, session_.stream()) == 0;
}

}  // namespace stepgate::gpu

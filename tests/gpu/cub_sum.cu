// CUB's sum of a whole buffer, as a shared object of its own: the only piece that needs CUDA's runtime.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cub/device/device_reduce.cuh>

namespace {

template <class T>
int sum(const void* data, std::uint64_t count, void* out, void* scratch, std::size_t* scratch_bytes,
        cudaStream_t stream) {
  return static_cast<int>(cub::DeviceReduce::Sum(scratch, *scratch_bytes, static_cast<const T*>(data),
                                                 static_cast<T*>(out), count, stream));
}

}  // namespace

// kind: 0 fp32, 1 fp16, 2 bf16. scratch = nullptr: only says how much it needs. 0: done.
extern "C" int stepgate_cub_sum(int kind, const void* data, std::uint64_t count, void* out, void* scratch,
                                std::size_t* scratch_bytes, void* stream) {
  auto* s = static_cast<cudaStream_t>(stream);
  switch (kind) {
    case 0: return sum<float>(data, count, out, scratch, scratch_bytes, s);
    case 1: return sum<__half>(data, count, out, scratch, scratch_bytes, s);
    case 2: return sum<__nv_bfloat16>(data, count, out, scratch, scratch_bytes, s);
    default: return -1;
  }
}

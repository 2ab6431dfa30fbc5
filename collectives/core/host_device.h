// Marks functions that the host compiler and nvcc both compile.
//
// The rules of a step (what a number means, when a step is skipped) exist once, as pure inline
// functions over plain data; a host thread and a GPU thread run the same source. Such functions
// allocate nothing, throw nothing, take no lock and touch no global.
#pragma once

#if defined(__CUDACC__)
#define STEPGATE_HD __host__ __device__
#else
#define STEPGATE_HD
#endif

namespace stepgate {

// a * b, rounded. nvcc contracts a product and a following sum into one rounding unless told not to;
// where a product feeds a sum, the host and the device must round alike.
STEPGATE_HD inline double rounded_product(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

}  // namespace stepgate

// The kernels of this project as compiled for the CPU, found by the name that a module knows them by.
//
// Threads: any. Ownership: the table is static.
#pragma once

#include <cstddef>
#include <span>

namespace stepgate::standin {

struct CpuKernel {
  const char* name;
  std::size_t argument_bytes;  // the one struct that every kernel takes by value
  void (*run)(unsigned grid, unsigned block, unsigned shared_bytes, const void* arguments);
};

std::span<const CpuKernel> all_kernels();

// nullptr where there is no such kernel.
const CpuKernel* find_kernel(const char* name);
// Of those that only the example charlm has.
const CpuKernel* find_charlm_kernel(const char* name);

}  // namespace stepgate::standin

// What the vector sources (simd_*.cc) hand to kernels.cc: each fills its part of a table for one
// instruction set. x86-64 only; other machines run the reference.
//
// Thread: any. Calling these needs no special machine; calling what they put into the table does.
#pragma once

#include "collectives/device/host/kernels.h"

namespace stepgate::device::host {

void set_look_avx2(Kernels& k) noexcept;
void set_look_avx3(Kernels& k) noexcept;
void set_detail_avx2(Kernels& k) noexcept;
void set_detail_avx3(Kernels& k) noexcept;
void set_multiply_avx2(Kernels& k) noexcept;
void set_multiply_avx3(Kernels& k) noexcept;

}  // namespace stepgate::device::host

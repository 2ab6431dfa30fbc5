// Index arithmetic of counts that no memory here could hold: the kernels' own code over the last groups
// of a segment of 2^40 elements, of which only those are there, found through a base far before them.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "tests/standin_cuda/device_runtime.h"
// After CUDA's words.
#include "collectives/device/cuda/kernels/limits.h"
#include "collectives/device/cuda/kernels/scan.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/collectives/device_cuda/kernel_runs.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using namespace stepgate::cuda;

constexpr std::uint64_t kCount = (std::uint64_t{1} << 40) + 5000;
constexpr std::uint32_t kGroupLog2 = 1;

// A pointer from which element `first` is memory[0].
template <class T>
T* base_before(T* memory, std::uint64_t first) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(memory) - first * sizeof(T));
}

template <class F>
GradStats scan_last_group(ElementType t, unsigned char* data, std::uint64_t first, std::uint32_t group,
                          float multiplier) {
  ScanArguments a{};
  a.limits = scan_limits(t, ElementType::kFp16);
  a.range_count = a.segment_count = 1;
  a.group_log2 = kGroupLog2;
  using Element = typename F::Element;
  const ScanSegment segment{base_before(reinterpret_cast<Element*>(data), first), kCount};
  std::memcpy(a.data + sizeof(ScanRange), &segment, sizeof segment);
  auto scratch = std::make_unique<WarpScratch>();
  standin::run_grid(1, 32, [&] {
    scan_group<F>(a, GroupPlace{0, 0, group, group + 1}, multiplier, *scratch);
  });
  return stats_in(*scratch);
}

template <class F>
void expect_equal(ElementType t, bool in_place) {
  std::mt19937_64 random(test_seed());
  const auto groups = static_cast<std::uint32_t>(groups_of(kCount, kGroupLog2));
  const std::uint32_t last = groups - 1;
  const std::uint64_t first = (std::uint64_t{last} << kGroupLog2) * kUnitElements;
  ASSERT_GT(first, std::uint64_t{1} << 39);
  ASSERT_LT(kCount - first, 3 * kUnitElements);
  Elements e = healthy(t, kCount - first, random);
  e[3] = infinity_bits(t);
  e.back() = nan_bits(t);
  std::vector<unsigned char> got = pack(t, e), want = got;
  const double scale = 3;
  const ScanResult host =
      scan_on_host(t, ElementType::kFp16, {{want.data(), e.size()}}, in_place ? &scale : nullptr);
  const GradStats stats =
      scan_last_group<F>(t, got.data(), first, last, in_place ? static_cast<float>(1.0 / scale) : 1.0f);
  EXPECT_EQ(difference(stats, host.total), "") << type_label(t);
  got.resize(got.size() - element_size(t)), want.resize(got.size());  // that NaN's bits are the machine's own
  EXPECT_TRUE(got == want) << type_label(t);
}

TEST(LargeKernels, TheLastGroupOfATerabyte) {
  expect_equal<Fp32Format>(ElementType::kFp32, false);
  expect_equal<Fp16Format>(ElementType::kFp16, false);
  expect_equal<Bf16Format>(ElementType::kBf16, false);
  expect_equal<Fp64Format>(ElementType::kFp64, false);
}

TEST(LargeKernels, InPlaceToo) {
  expect_equal<InPlace<Fp32Format, ApplyFp32>>(ElementType::kFp32, true);
  expect_equal<InPlace<Fp16Format, ApplyFp16>>(ElementType::kFp16, true);
  expect_equal<InPlace<Bf16Format, ApplyBf16>>(ElementType::kBf16, true);
  expect_equal<InPlace<Fp64Format, ApplyFp64>>(ElementType::kFp64, true);
}

// The launch's first chunk is the piece's last.
TEST(LargeKernels, TheLastChunkOfATerabyte) {
  std::mt19937_64 random(test_seed());
  const auto chunk = static_cast<std::uint32_t>(kCount / kApplyChunk);
  const std::uint64_t first = chunk * kApplyChunk;
  ASSERT_EQ(kCount - first, 5000u);
  std::vector<unsigned char> got = pack(ElementType::kFp32, healthy(ElementType::kFp32, 5000, random));
  std::vector<unsigned char> want = got;
  Outputs outputs;
  outputs.found_inf = 0;
  outputs.multiplier = 0.25f;
  auto a = std::make_unique<ApplyArguments>();
  *a = {};
  a->outputs = &outputs;
  a->piece_count = a->chunk_count = 1;
  a->piece[0] = {base_before(reinterpret_cast<float*>(got.data()), first), nullptr, kCount};
  a->first_chunk[0] = 0u - chunk;
  run_kernel("stepgate_apply_fp32", 1, 64, *a);
  for (std::size_t i = 0; i < 5000; ++i) reinterpret_cast<float*>(want.data())[i] *= 0.25f;
  EXPECT_TRUE(got == want);
}

}  // namespace
}  // namespace stepgate::test

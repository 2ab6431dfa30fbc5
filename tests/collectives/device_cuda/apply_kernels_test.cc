// The apply kernels against HostDevice: every type, alignment and count, and when nothing is done.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "collectives/device/host/host_device.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/collectives/device_cuda/kernel_runs.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

constexpr std::size_t kGuard = 32;  // bytes around a buffer that nobody may touch

Outputs decided(float multiplier, float found_inf = 0) {
  Outputs o;
  o.found_inf = found_inf;
  o.multiplier = multiplier;
  return o;
}

std::vector<unsigned char> guarded(std::size_t bytes) {
  return std::vector<unsigned char>(bytes + 2 * kGuard + 16, 0x5a);
}

std::uint32_t chunks_of(std::uint64_t count) {
  return static_cast<std::uint32_t>((count + cuda::kApplyChunk - 1) / cuda::kApplyChunk);
}

cuda::ApplyArguments one_piece(const cuda::ApplyPiece& piece, const Outputs& outputs) {
  cuda::ApplyArguments a{};
  a.outputs = &outputs;
  a.piece_count = 1;
  a.chunk_count = chunks_of(piece.count);
  a.piece[0] = piece;
  return a;
}

class ApplyKernels : public testing::TestWithParam<ElementType> {
 protected:
  ElementType stored() const { return GetParam(); }

  // Elements at `skip` bytes behind the guard; multiplied in place here and by the host.
  void expect_in_place(const Elements& e, std::size_t skip, const Outputs& outputs, unsigned grid) {
    std::vector<unsigned char> want = guarded(e.size() * element_size(stored()));
    const std::vector<unsigned char> packed = pack(stored(), e);
    std::copy(packed.begin(), packed.end(), want.begin() + static_cast<std::ptrdiff_t>(kGuard + skip));
    std::vector<unsigned char> got = want;
    device::HostDevice host;
    const device::Apply job{want.data() + kGuard + skip, e.size(), stored(), &outputs, nullptr, {}};
    ASSERT_EQ(host.apply(nullptr, job), device::Code::kOk);
    run_kernel(("stepgate_apply_" + type_label(stored())).c_str(), grid, 32,
               one_piece({got.data() + kGuard + skip, nullptr, e.size()}, outputs));
    EXPECT_EQ(got, want) << e.size() << " elements, " << skip << " bytes off";
  }

  void expect_widened(const Elements& e, std::size_t skip, std::size_t out_skip, const Outputs& outputs) {
    std::vector<unsigned char> memory = pack(stored(), e, skip);
    std::vector<unsigned char> want = guarded(e.size() * 4);
    std::vector<unsigned char> got = want;
    device::HostDevice host;
    const device::Apply job{
        memory.data() + skip, e.size(), stored(), &outputs, want.data() + kGuard + out_skip,
        ElementType::kFp32};
    ASSERT_EQ(host.apply(nullptr, job), device::Code::kOk);
    run_kernel(("stepgate_widen_" + type_label(stored())).c_str(), 2, 32,
               one_piece({memory.data() + skip, got.data() + kGuard + out_skip, e.size()}, outputs));
    EXPECT_EQ(got, want) << e.size() << " elements, " << skip << " and " << out_skip << " bytes off";
  }

  // No NaN: what bits a product with one has is the machine's own.
  Elements finite(std::size_t n) {
    Elements e = any_bits(stored(), n, random_);
    for (auto& x : e) {
      if ((x & ~sign_bit(stored())) > infinity_bits(stored())) x = 1;
    }
    return e;
  }

  std::mt19937_64 random_{test_seed()};
};

TEST_P(ApplyKernels, AnyCountAndAlignment) {
  for (std::size_t n = 0; n <= 70; ++n) {
    for (std::size_t skip = 0; skip < 16; skip += element_size(stored())) {
      expect_in_place(finite(n), skip, decided(0.37f), n % 10 == 0 ? 3 : 1);
    }
  }
  expect_in_place(finite(20011), 0, decided(1.0f / 65536), 3);
  expect_in_place(finite(20011), element_size(stored()), decided(3.3f), 2);
}

// The types that are widened too.
class WidenKernels : public ApplyKernels {};

TEST_P(WidenKernels, EveryHalf) {
  Elements e;
  for (std::uint64_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7fff) <= infinity_bits(stored())) e.push_back(bits);
  }
  for (const float m : {0.37f, 1.0f / 1024, 0x1p-20f, 700.0f}) {
    expect_in_place(e, 0, decided(m), 2);
    expect_widened(e, 0, 0, decided(m));
  }
}

TEST_P(WidenKernels, AnyCountAndAlignment) {
  for (const std::size_t n : {0, 1, 7, 8, 9, 63, 64, 65, 5000}) {
    for (const std::size_t skip : {0, 2, 6, 14}) {
      for (const std::size_t out_skip : {0, 4, 8}) expect_widened(finite(n), skip, out_skip, decided(0.125f));
    }
  }
}

TEST_P(ApplyKernels, NothingToDo) {
  const Elements e = finite(1000);
  expect_in_place(e, 0, decided(0.5f, 1), 2);
  expect_in_place(e, 0, decided(1.0f), 2);
}

TEST_P(WidenKernels, NothingToDo) {
  const Elements e = finite(1000);
  expect_widened(e, 0, 0, decided(0.5f, 1));
  expect_widened(e, 0, 0, decided(1.0f));  // widened all the same
}

INSTANTIATE_TEST_SUITE_P(Types, WidenKernels, testing::Values(ElementType::kFp16, ElementType::kBf16),
                         [](const auto& one) { return type_label(one.param); });
INSTANTIATE_TEST_SUITE_P(Types, ApplyKernels, testing::ValuesIn(kStoredTypes),
                         [](const auto& one) { return type_label(one.param); });

}  // namespace
}  // namespace stepgate::test

// Many buffers multiplied in one launch, and the count of absorbed updates, against HostDevice.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "collectives/device/host/host_device.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/collectives/device_cuda/kernel_runs.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

class PassesKernels : public testing::TestWithParam<ElementType> {
 protected:
  ElementType stored() const { return GetParam(); }
  std::mt19937_64 random_{test_seed()};
};

TEST_P(PassesKernels, ManyBuffersInOneLaunch) {
  Outputs outputs;
  outputs.found_inf = 0;
  outputs.multiplier = 0.37f;
  std::vector<std::vector<unsigned char>> got, want;
  auto a = std::make_unique<cuda::ApplyArguments>();
  *a = {};
  a->outputs = &outputs;
  device::HostDevice host;
  for (std::uint32_t i = 0; i < cuda::kApplyPieces; ++i) {
    const std::size_t n = i % 40 == 5 ? 2 * cuda::kApplyChunk + random_() % 100 : 1 + random_() % 50;
    const std::size_t skip = i % 3 * element_size(stored());
    got.push_back(pack(stored(), healthy(stored(), n, random_), skip));
    want.push_back(got.back());
    const device::Apply job{
        .data = want.back().data() + skip, .count = n, .stored = stored(), .outputs = &outputs};
    ASSERT_EQ(host.apply(nullptr, job), device::Code::kOk);
    a->piece[i] = {got.back().data() + skip, nullptr, n};
    a->first_chunk[i] = a->chunk_count;
    a->chunk_count += static_cast<std::uint32_t>((n + cuda::kApplyChunk - 1) / cuda::kApplyChunk);
    ++a->piece_count;
  }
  run_kernel(("stepgate_apply_" + type_label(stored())).c_str(), 3, 64, *a);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i] == want[i]) << i;
}

TEST_P(PassesKernels, AbsorbedUpdates) {
  const std::string name = "stepgate_absorbed_" + std::to_string(8 * element_size(stored()));
  for (const std::size_t n : {0, 1, 2, 31, 70, 1000, 5003}) {
    for (const std::size_t skip : {std::size_t{0}, element_size(stored())}) {
      const Elements before = healthy(stored(), n, random_);
      Elements after = before, update = any_bits(stored(), n, random_);
      for (std::size_t i = 0; i < n; ++i) {
        if (random_() % 2 == 0) after[i] ^= random_() % 3;
        if (random_() % 3 == 0) update[i] &= sign_bit(stored());  // a zero of either sign
      }
      const auto packed = [&](const Elements& e) { return pack(stored(), e, skip); };
      const std::vector<unsigned char> memory[] = {packed(before), packed(after), packed(update)};
      device::UpdateStats want;
      device::HostDevice host;
      ASSERT_EQ(host.observe_update(nullptr, {memory[0].data() + skip, memory[1].data() + skip,
                                              memory[2].data() + skip, n, stored(), &want}),
                device::Code::kOk);
      unsigned long long got[3] = {};
      run_kernel(name.c_str(), 3, 64,
                 cuda::UpdateArguments{memory[0].data() + skip, memory[1].data() + skip,
                                       memory[2].data() + skip, n, got});
      EXPECT_EQ(got[0], want.elements);
      EXPECT_EQ(got[1], want.updates) << n;
      EXPECT_EQ(got[2], want.absorbed) << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PassesKernels, testing::ValuesIn(kStoredTypes),
                         [](const auto& one) { return type_label(one.param); });

}  // namespace
}  // namespace stepgate::test

// A job that flushes denormals, rounds otherwise or has raised flags gets the same bits, and its own
// settings back.
#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

#include <random>
#include <thread>

#include "collectives/device/host/host_device.h"
#include "collectives/device/host/kernels.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using device::Code;
using device::HostDevice;
using device::Segment;

constexpr unsigned kFlushAndDaz = 0x8040;
constexpr unsigned kRoundUp = 0x4000;
constexpr unsigned kInvalidTraps = 0x0080;  // the mask bit: cleared, an invalid operation traps
constexpr unsigned kDivideFlag = 0x0004;

class Mxcsr {
 public:
  explicit Mxcsr(unsigned value) : saved_(_mm_getcsr()) { _mm_setcsr(value); }
  ~Mxcsr() { _mm_setcsr(saved_); }
  Mxcsr(const Mxcsr&) = delete;
  Mxcsr& operator=(const Mxcsr&) = delete;

 private:
  unsigned saved_;
};

constexpr unsigned kStrange[] = {0x1f80 | kFlushAndDaz, 0x1f80 | kRoundUp,
                                 (0x1f80 & ~kInvalidTraps) | kFlushAndDaz,
                                 0x1f80 | kFlushAndDaz | kRoundUp | kDivideFlag};

// Subnormals, tiny normal numbers and, in fp32, squares that fall below the smallest normal one.
Elements delicate(ElementType t, std::mt19937_64& random) {
  Elements e = any_bits(t, 9000, random);
  for (std::size_t i = 0; i < e.size(); i += 2) e[i] %= encode(t, smallest_normal(t)) * 2;
  e.resize(18000, encode(t, 0x1p-14));
  return e;
}

GradStats scan_under(unsigned mxcsr, HostDevice host, ElementType t, const Elements& e) {
  const auto bytes = pack(t, e);
  const Segment segment{bytes.data(), e.size()};
  GradStats stats;
  unsigned after = 0;
  Code code = Code::kInvalid;
  {
    const Mxcsr scope(mxcsr);
    code = host.scan(nullptr, {.segments = {&segment, 1}, .stored = t, .total = &stats});
    after = _mm_getcsr();
  }
  EXPECT_EQ(code, Code::kOk);
  EXPECT_EQ(after, mxcsr);
  return stats;
}

TEST(FpEnvironment, ScanGivesTheSameBitsAndRestores) {
  std::mt19937_64 random(test_seed());
  for (const auto* table : device::host::runnable_kernels()) {
    for (const ElementType t : kStoredTypes) {
      const Elements e = delicate(t, random);
      const GradStats want = oracle_scan(t, ElementType::kFp16, e);
      for (const unsigned mxcsr : kStrange) {
        EXPECT_EQ(difference(scan_under(mxcsr, HostDevice(*table), t, e), want), "")
            << table->name << ' ' << type_label(t);
      }
    }
  }
}

TEST(FpEnvironment, HoldsOnEveryThread) {
  std::mt19937_64 random(test_seed());
  const Elements e = delicate(ElementType::kFp32, random);
  const GradStats want = oracle_scan(ElementType::kFp32, ElementType::kFp16, e);
  std::vector<std::thread> threads;
  for (const unsigned mxcsr : kStrange) {
    threads.emplace_back([&, mxcsr] {
      EXPECT_EQ(difference(scan_under(mxcsr, HostDevice(), ElementType::kFp32, e), want), "");
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST(FpEnvironment, ApplyGivesTheSameBitsAndRestores) {
  std::mt19937_64 random(test_seed());
  Outputs o;
  o.found_inf = 0;
  o.multiplier = 0x1.5p-3f;
  for (const auto* table : device::host::runnable_kernels()) {
    for (const ElementType t : kStoredTypes) {
      HostDevice host(*table);
      const Elements e = delicate(t, random);
      auto plain = pack(t, e);
      ASSERT_EQ(host.apply(nullptr, {.data = plain.data(), .count = e.size(), .stored = t, .outputs = &o}),
                Code::kOk);
      for (const unsigned mxcsr : kStrange) {
        auto strange = pack(t, e);
        unsigned after = 0;
        {
          const Mxcsr scope(mxcsr);
          host.apply(nullptr, {.data = strange.data(), .count = e.size(), .stored = t, .outputs = &o});
          after = _mm_getcsr();
        }
        EXPECT_EQ(after, mxcsr);
        EXPECT_EQ(strange, plain) << table->name << ' ' << type_label(t);
      }
    }
  }
}

}  // namespace
}  // namespace stepgate::test
#endif

// apply(): the product of every table against the oracle by value and the reference by bits; when it
// must not touch anything; conversions of halves over their whole range.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "collectives/device/host/float_bits.h"
#include "collectives/device/host/host_device.h"
#include "collectives/device/host/kernels.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using device::Apply;
using device::Code;
using device::HostDevice;

Outputs go_with(float multiplier) {
  Outputs o;
  o.found_inf = 0;
  o.multiplier = multiplier;
  return o;
}

Elements apply_in_place(const device::host::Kernels& table, ElementType t, const Elements& e,
                        float multiplier, std::size_t offset = 0) {
  HostDevice host(table);
  auto bytes = pack(t, e, offset);
  const Outputs o = go_with(multiplier);
  EXPECT_EQ(
      host.apply(nullptr, {.data = bytes.data() + offset, .count = e.size(), .stored = t, .outputs = &o}),
      Code::kOk);
  for (std::size_t i = 0; i < offset; ++i) EXPECT_EQ(bytes[i], 0xee);
  return unpack(t, bytes.data() + offset, e.size());
}

std::vector<float> apply_widening(const device::host::Kernels& table, ElementType t, const Elements& e,
                                  float multiplier) {
  HostDevice host(table);
  auto bytes = pack(t, e);
  const auto before = bytes;
  std::vector<float> out(e.size() + 1, 7.0f);
  const Outputs o = go_with(multiplier);
  EXPECT_EQ(
      host.apply(nullptr,
                 {.data = bytes.data(), .count = e.size(), .stored = t, .outputs = &o, .out = out.data()}),
      Code::kOk);
  EXPECT_EQ(bytes, before);
  EXPECT_EQ(out.back(), 7.0f);
  out.pop_back();
  return out;
}

void expect_product(ElementType t, std::uint64_t input, std::uint64_t got, float multiplier) {
  const std::uint64_t want = oracle_product(t, input, multiplier);
  if (std::isnan(decode(t, want))) {
    EXPECT_TRUE(std::isnan(decode(t, got))) << type_label(t) << std::hex << ' ' << input << " became " << got;
  } else {
    EXPECT_EQ(got, want) << type_label(t) << std::hex << ' ' << input << " times " << multiplier;
  }
}

// All values of the 16-bit types, and as many of the wide ones.
Elements wide_selection(ElementType t, std::mt19937_64& random) {
  Elements e;
  if (element_size(t) != 2) {
    e = any_bits(t, 60000, random);
    for (const std::uint64_t bits :
         {std::uint64_t{0}, std::uint64_t{1}, largest_bits(t), infinity_bits(t), nan_bits(t)}) {
      e.push_back(bits);
      e.push_back(bits | sign_bit(t));
    }
    return e;
  }
  for (std::uint64_t bits = 0; bits < 65536; ++bits) e.push_back(bits);
  return e;
}

constexpr float kMultipliers[] = {1.0f,     0.5f,     0x1p-16f, 0.1f,     3.0f,
                                  0x1p-30f, 1.0f / 3, 65536.0f, 0x1p100f, 0x1p-126f};

TEST(Apply, EveryValueInEveryTable) {
  std::mt19937_64 random(test_seed());
  for (const ElementType t : kStoredTypes) {
    const Elements e = wide_selection(t, random);
    for (const float multiplier : kMultipliers) {
      const Elements want = apply_in_place(device::host::reference_kernels(), t, e, multiplier);
      for (std::size_t i = 0; i < e.size(); ++i) expect_product(t, e[i], want[i], multiplier);
      for (const auto* table : device::host::runnable_kernels()) {
        EXPECT_EQ(apply_in_place(*table, t, e, multiplier), want)
            << table->name << ' ' << type_label(t) << ' ' << multiplier;
      }
    }
  }
}

// Ties and their neighbours: products that lie exactly between two stored values.
TEST(Apply, TiesGoToEven) {
  for (const ElementType t : {ElementType::kFp16, ElementType::kBf16}) {
    const Elements odd_and_even =
        encode_all(t, {1.0, 1.0 + 0x1p-7, 1.0 + 0x1p-6, 1.5, 0x1p-14, 0x1p-15, 0x1p-24});
    for (const auto* table : device::host::runnable_kernels()) {
      for (const float m :
           {1.0f + 0x1p-8f, 1.0f + 0x1p-11f, 1.0f + 0x1p-10f, 0.5f, 1.5f, 2.5f, 0.5f + 0x1p-20f}) {
        const Elements got = apply_in_place(*table, t, odd_and_even, m);
        for (std::size_t i = 0; i < got.size(); ++i) expect_product(t, odd_and_even[i], got[i], m);
      }
    }
  }
}

TEST(Apply, WidensHalvesWithoutRoundingTwice) {
  std::mt19937_64 random(test_seed());
  for (const ElementType t : {ElementType::kFp16, ElementType::kBf16}) {
    const Elements e = wide_selection(t, random);
    for (const float multiplier : kMultipliers) {
      for (const auto* table : device::host::runnable_kernels()) {
        const std::vector<float> got = apply_widening(*table, t, e, multiplier);
        for (std::size_t i = 0; i < e.size(); ++i) {
          const float want = static_cast<float>(decode(t, e[i])) * multiplier;
          if (std::isnan(want)) {
            EXPECT_TRUE(std::isnan(got[i]));
          } else {
            EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want))
                << table->name << ' ' << e[i];
          }
        }
      }
    }
  }
}

TEST(Apply, LengthsAndOffsets) {
  std::mt19937_64 random(test_seed());
  for (const ElementType t : kStoredTypes) {
    for (std::size_t n = 0; n <= 140; ++n) {
      const Elements e = any_bits(t, n, random);
      const std::size_t offset = n % 64;
      const Elements want = apply_in_place(device::host::reference_kernels(), t, e, 0.3f, offset);
      for (const auto* table : device::host::runnable_kernels()) {
        EXPECT_EQ(apply_in_place(*table, t, e, 0.3f, offset), want)
            << table->name << ' ' << type_label(t) << ' ' << n;
      }
    }
  }
}

TEST(Apply, NothingIsWrittenOnASkip) {
  HostDevice host;
  std::vector<float> values = {3, 4, std::numeric_limits<float>::infinity()};
  const std::vector<float> before = values;
  std::vector<float> out(3, 9.0f);
  Outputs o;  // found_inf is 1 until a decision says otherwise
  o.multiplier = 0.5f;
  EXPECT_EQ(host.apply(nullptr, {.data = values.data(), .count = 3, .outputs = &o}), Code::kOk);
  EXPECT_EQ(values, before);
  std::vector<std::uint16_t> halves(3, 0x3c00);
  EXPECT_EQ(host.apply(nullptr, {.data = halves.data(),
                                 .count = 3,
                                 .stored = ElementType::kFp16,
                                 .outputs = &o,
                                 .out = out.data()}),
            Code::kOk);
  EXPECT_EQ(out, std::vector<float>(3, 9.0f));
}

TEST(Apply, RefusesWhatItCannotDo) {
  HostDevice host;
  std::vector<float> values(4, 1.0f);
  const Outputs o = go_with(2.0f);
  const auto refused = [&](const Apply& job, Code code, const char* text) {
    EXPECT_EQ(host.apply(nullptr, job), code);
    EXPECT_NE(std::string(host.last_error()).find(text), std::string::npos) << host.last_error();
  };
  refused({.data = values.data(), .count = 4, .stored = ElementType::kFp8E4M3, .outputs = &o},
          Code::kUnsupported, "element type 4");
  refused({.data = values.data(), .count = 4}, Code::kInvalid, "outputs");
  refused({.data = nullptr, .count = 4, .outputs = &o}, Code::kInvalid, "null pointer");
  refused({.data = values.data(), .count = 4, .outputs = &o, .out = values.data()}, Code::kUnsupported,
          "out of place");
  refused({.data = values.data(),
           .count = 4,
           .stored = ElementType::kFp16,
           .outputs = &o,
           .out = values.data(),
           .out_type = ElementType::kFp64},
          Code::kUnsupported, "out of place");
  EXPECT_EQ(values, std::vector<float>(4, 1.0f));
}

TEST(Conversions, EveryHalfAndBfloatThereAndBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    const float half = device::host::half_to_float(b);
    const float bfloat = device::host::bfloat_to_float(b);
    if (std::isnan(decode(ElementType::kFp16, b))) {
      EXPECT_TRUE(std::isnan(half));
      EXPECT_TRUE(std::isnan(decode(ElementType::kFp16, device::host::float_to_half(half))));
    } else {
      EXPECT_EQ(half, decode(ElementType::kFp16, b));
      EXPECT_EQ(device::host::float_to_half(half), b);
    }
    if (std::isnan(decode(ElementType::kBf16, b))) {
      EXPECT_TRUE(std::isnan(decode(ElementType::kBf16, device::host::float_to_bfloat(bfloat))));
    } else {
      EXPECT_EQ(bfloat, decode(ElementType::kBf16, b));
      EXPECT_EQ(device::host::float_to_bfloat(bfloat), b);
    }
  }
}

TEST(Conversions, FloatsAroundEveryHalfRoundToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto low = static_cast<float>(decode(ElementType::kFp16, bits));
    const float next = bits == 0x7bff ? 65536.0f : static_cast<float>(decode(ElementType::kFp16, bits + 1));
    const float middle = low + (next - low) / 2;
    for (const float x : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f)}) {
      EXPECT_EQ(device::host::float_to_half(x), encode(ElementType::kFp16, x)) << x;
      EXPECT_EQ(device::host::float_to_half(-x), encode(ElementType::kFp16, -static_cast<double>(x))) << x;
    }
  }
}

}  // namespace
}  // namespace stepgate::test

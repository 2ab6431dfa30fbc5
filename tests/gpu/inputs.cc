#include "tests/gpu/inputs.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace stepgate::gpu {
namespace {

// Bits of +2^power with any mantissa, for a power that the type has as a normal number.
std::uint64_t power_bits(ElementType t, int power, std::uint64_t mantissa) {
  const std::uint64_t one[] = {0x3f800000, 0x3c00, 0x3f80, 0x3ff0000000000000, 0x38, 0x3c};
  const int mantissa_bits[] = {23, 10, 7, 52, 3, 2};
  const auto i = static_cast<std::size_t>(t);
  const auto shifted = static_cast<std::int64_t>(power) * (std::int64_t{1} << mantissa_bits[i]);
  const std::uint64_t mask = (std::uint64_t{1} << mantissa_bits[i]) - 1;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(one[i]) + shifted) | (mantissa & mask);
}

// The powers of two that a type can take and square without leaving it for the sum's sake.
int reach(ElementType t) {
  switch (t) {
    case ElementType::kFp8E4M3: return 5;
    case ElementType::kFp16:
    case ElementType::kFp8E5M2: return 13;
    default: return 40;
  }
}

bool is_wide(ElementType t) {
  return reach(t) == 40;
}

void add_one_bad_each(ElementType t, Random& random, std::vector<Case>& cases) {
  const std::size_t n = 2 * 8192 + 77;
  std::vector<std::pair<const char*, std::uint64_t>> bad = {
      {"nan", nan_of(t)}, {"negative nan", nan_of(t) | sign_of(t)}, {"largest", largest_of(t)}};
  if (infinity_of(t) >= 0) {
    const auto infinity = static_cast<std::uint64_t>(infinity_of(t));
    bad.insert(bad.end(),
               {{"inf", infinity}, {"-inf", infinity | sign_of(t)}, {"signalling nan", infinity + 1}});
  }
  for (const auto& [name, bits] : bad) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{8192 + 13}, n - 1}) {
      Case c{std::string("one ") + name + " at " + std::to_string(at), spread(t, n, random)};
      c.elements[at] = bits;
      cases.push_back(std::move(c));
    }
  }
}

// Both sides of what fp32 columns of squares hold.
void add_limits(ElementType t, std::vector<Case>& cases) {
  if (!is_wide(t)) return;
  for (const int power : {59, 60, 61, -49, -50, -51}) {
    for (const std::uint64_t mantissa : {std::uint64_t{0}, std::uint64_t{1}}) {
      Case c{"all 2^" + std::to_string(power), Elements(8192 + 9, power_bits(t, power, mantissa))};
      c.elements[17] = 0;
      cases.push_back(std::move(c));
    }
  }
}

}  // namespace

Elements any_bits(ElementType t, std::size_t n, Random& random) {
  Elements e(n);
  const int drop = 64 - static_cast<int>(8 * element_size(t));
  for (std::uint64_t& bits : e) bits = random() >> drop;
  return e;
}

Elements spread(ElementType t, std::size_t n, Random& random) {
  std::array<int, kUnitColumns> powers;
  for (int& p : powers) p = static_cast<int>(random() % (2u * static_cast<unsigned>(reach(t)))) - reach(t);
  Elements e(n);
  for (std::size_t i = 0; i < n; ++i) {
    e[i] = power_bits(t, powers[i % kUnitColumns], random()) | (random() % 2 != 0 ? sign_of(t) : 0);
  }
  return e;
}

std::vector<Case> adversarial(ElementType t, Random& random) {
  std::vector<Case> cases;
  for (std::size_t n = 0; n <= 70; ++n)
    cases.push_back({std::to_string(n) + " of any bits", any_bits(t, n, random)});
  for (const std::size_t n : {255, 256, 257, 8191, 8192, 8193, 16385}) {
    cases.push_back({std::to_string(n) + " spread", spread(t, n, random)});
    cases.push_back({std::to_string(n) + " of any bits", any_bits(t, n, random)});
  }
  const std::size_t n = 8192 + 300;
  cases.push_back({"all zero", Elements(n, 0)});
  cases.push_back({"all -0", Elements(n, sign_of(t))});
  cases.push_back({"all subnormal", Elements(n, 1)});
  cases.push_back({"all largest", Elements(n, largest_of(t))});
  cases.push_back({"all -largest", Elements(n, largest_of(t) | sign_of(t))});
  cases.push_back({"all nan", Elements(n, nan_of(t))});
  if (infinity_of(t) >= 0)
    cases.push_back({"all inf", Elements(n, static_cast<std::uint64_t>(infinity_of(t)))});
  add_one_bad_each(t, random, cases);
  add_limits(t, cases);
  return cases;
}

Bytes healthy_bytes(ElementType t, std::uint64_t count, std::uint64_t seed) {
  // Which bits are random, and what the others are, in every element of a 64-bit word.
  static constexpr std::uint64_t kKeep[] = {0x80ffffff80ffffff, 0x87ff87ff87ff87ff, 0x80ff80ff80ff80ff,
                                            0x800fffffffffffff, 0x8f8f8f8f8f8f8f8f, 0x8787878787878787};
  static constexpr std::uint64_t kSet[] = {0x3d0000003d000000, 0x2800280028002800, 0x3d003d003d003d00,
                                           0x3fb0000000000000, 0x3030303030303030, 0x3030303030303030};
  const auto i = static_cast<std::size_t>(t);
  Bytes bytes(count * element_size(t));
  std::uint64_t state = seed * 2 + 1;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    const std::uint64_t word = (state & kKeep[i]) | kSet[i];
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
  }
  return bytes;
}

}  // namespace stepgate::gpu

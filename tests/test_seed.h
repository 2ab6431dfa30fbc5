// The seed of a test program's random choices.
//
// Thread: any. STEPGATE_TEST_SEED (decimal, or with 0x) where it is set, to replay a failure; else a fresh
// one. Printed once, when it is first asked for.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>

namespace stepgate::test {

inline std::uint64_t test_seed() {
  static const std::uint64_t kSeed = [] {
    const char* given = std::getenv("STEPGATE_TEST_SEED");
    const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    std::cout << "STEPGATE_TEST_SEED=" << seed << std::endl;
    return seed;
  }();
  return kSeed;
}

}  // namespace stepgate::test

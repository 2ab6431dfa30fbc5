// What observing adds to an all-reduce on host memory, beside a loop that only reads the same bytes: both by
// turns in one process, medians, as JSON.
//
//   bench_observe [--mib N] [--rounds N]
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "collectives/device/host/host_device.h"
#include "plugin/core/observe/observer.h"
#include "tests/bench/host_scan/plain_loops.h"

namespace stepgate::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Not known to the compiler, so that no loop is thrown away.
volatile std::uint64_t kept;

double seconds_of(const auto& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Touched before anything is measured, in pages that cost no faults.
float* gradient(std::size_t elements) {
  const std::size_t bytes = elements * sizeof(float);
  void* memory = std::aligned_alloc(std::size_t{2} << 20, bytes);
  if (memory == nullptr) std::exit(1);
  madvise(memory, bytes, MADV_HUGEPAGE);
  auto* x = static_cast<float*>(memory);
  for (std::size_t i = 0; i < elements; ++i) x[i] = 0.001f * static_cast<float>(i % 1000 + 1);
  return x;
}

int measure(std::size_t mib, int rounds) {
  const std::size_t bytes = mib << 20;
  float* const x = gradient(bytes / sizeof(float));
  device::HostDevice device;
  gate::Observer observer({}, device);
  const Reduction op{OpKind::kAllReduce,
                     ncclFloat32,
                     ncclSum,
                     0,
                     x,
                     x,
                     bytes / sizeof(float),
                     2,
                     reinterpret_cast<ncclComm_t>(&device),
                     nullptr};
  std::vector<double> read, added;
  for (int i = 0; i < rounds + 2; ++i) {
    const double plain =
        seconds_of([&] { kept = sum_words(reinterpret_cast<const unsigned char*>(x), bytes); });
    const double mine = seconds_of([&] {
      observer.before(op);
      observer.after(op, Outcome::kLaunched);
    });
    if (i < 2) continue;  // warm up
    read.push_back(plain);
    added.push_back(mine);
  }
  std::printf(
      "{\"bytes\": %zu, \"rounds\": %d, \"read_ms\": %.3f, \"added_ms\": %.3f, \"of_read\": %.3f, "
      "\"gigabytes_per_second\": %.1f}\n",
      bytes, rounds, 1e3 * median(read), 1e3 * median(added), median(added) / median(read),
      static_cast<double>(bytes) / median(added) * 1e-9);
  std::free(x);
  return 0;
}

}  // namespace
}  // namespace stepgate::bench

int main(int argc, char** argv) {
  std::size_t mib = 256;
  int rounds = 21;
  for (int i = 1; i < argc; i += 2) {
    const long value = i + 1 < argc ? std::strtol(argv[i + 1], nullptr, 10) : 0;
    if (value > 0 && value <= 1 << 20 && std::strcmp(argv[i], "--mib") == 0) {
      mib = static_cast<std::size_t>(value);
    } else if (value > 0 && value <= 1 << 20 && std::strcmp(argv[i], "--rounds") == 0) {
      rounds = static_cast<int>(value);
    } else {
      std::fprintf(stderr, "usage: bench_observe [--mib N] [--rounds N]\n");
      return 2;
    }
  }
  return stepgate::bench::measure(mib, rounds);
}

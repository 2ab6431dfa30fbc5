// Rates of HostDevice's scan and apply beside a plain read loop and a plain scale loop over the same
// buffer, in one process, interleaved; the median of the rounds. One thread, its CPU time.
//
//   bench_host_scan [--json] [--mib N] [--rounds N] [--kernels NAME]
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "collectives/core/gate_block.h"
#include "collectives/device/host/float_bits.h"
#include "collectives/device/host/host_device.h"
#include "collectives/device/host/kernels.h"
#include "tests/bench/host_scan/plain_loops.h"

namespace {

using namespace stepgate;
using namespace stepgate::device;

struct Options {
  bool json = false;
  std::size_t mib = 512;
  int rounds = 11;
  std::string kernels;  // empty: all but the slow reference
};

int usage(const char* argument) {
  std::fprintf(stderr,
               "bench_host_scan: bad argument '%s'; allowed: --json, --mib N (1 to 65536), --rounds N (1 to "
               "1001), --kernels NAME\n",
               argument);
  return 2;
}

bool parse_number(const char* text, long most, long& value) {
  char* end = nullptr;
  value = std::strtol(text, &end, 10);
  return *text != '\0' && *end == '\0' && value >= 1 && value <= most;
}

// 0, or the exit status of a bad command line.
int parse(int argc, char** argv, Options& o) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--json") {
      o.json = true;
      continue;
    }
    if (i + 1 == argc) return usage(argv[i]);
    const char* value = argv[++i];
    long number = 0;
    if (name == "--kernels") {
      o.kernels = value;
    } else if (name == "--mib" && parse_number(value, 65536, number)) {
      o.mib = static_cast<std::size_t>(number);
    } else if (name == "--rounds" && parse_number(value, 1001, number)) {
      o.rounds = static_cast<int>(number);
    } else {
      return usage(argv[i - 1]);
    }
  }
  return 0;
}

unsigned char* map_buffer(std::size_t bytes) {
  void* p = mmap(nullptr, bytes + (2u << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  const auto start = (reinterpret_cast<std::uintptr_t>(p) + (2u << 20) - 1) & ~std::uintptr_t{(2u << 20) - 1};
  auto* aligned = reinterpret_cast<unsigned char*>(start);
  madvise(aligned, bytes, MADV_HUGEPAGE);
  return aligned;
}

// Healthy gradients of the type, around 1e-3 times a scale of 1024: normal numbers, a few zeros.
void fill(unsigned char* buffer, std::size_t bytes, ElementType type) {
  std::mt19937_64 random(7);
  std::normal_distribution<float> values(0.0f, 1.0f);
  std::vector<unsigned char> block(1u << 20);
  const std::size_t size = element_size(type);
  for (std::size_t i = 0; i < block.size() / size; ++i) {
    const float x = values(random);
    const double wide = x;
    const std::uint16_t half = host::float_to_half(x);
    const std::uint16_t bfloat = host::float_to_bfloat(x);
    const void* from = type == ElementType::kFp32   ? static_cast<const void*>(&x)
                       : type == ElementType::kFp64 ? static_cast<const void*>(&wide)
                       : type == ElementType::kFp16 ? static_cast<const void*>(&half)
                                                    : static_cast<const void*>(&bfloat);
    std::memcpy(block.data() + i * size, from, size);
  }
  for (std::size_t at = 0; at < bytes; at += block.size()) {
    std::memcpy(buffer + at, block.data(), std::min(block.size(), bytes - at));
  }
}

struct Loop {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// The thread's own time: what other programs take from this core does not count against a loop.
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void run_interleaved(std::vector<Loop>& loops, int rounds) {
  for (int r = -1; r < rounds; ++r) {  // one round to warm up
    for (Loop& loop : loops) {
      const double start = thread_seconds();
      loop.run();
      const double took = thread_seconds() - start;
      if (r >= 0) loop.seconds.push_back(took);
    }
  }
}

volatile std::uint64_t sink;

std::vector<Loop> make_loops(const Options& o, unsigned char* buffer, std::size_t bytes, ElementType type,
                             const Outputs& outputs) {
  const std::uint64_t count = bytes / element_size(type);
  std::vector<Loop> loops;
  loops.push_back({"read", [=] { sink = bench::sum_words(buffer, bytes); }, {}});
  loops.push_back({"scale", [=] { bench::scale_floats(buffer, bytes, 1.0f); }, {}});
  for (const host::Kernels* k : host::runnable_kernels()) {
    const bool wanted = o.kernels.empty() ? k != &host::reference_kernels() : o.kernels == k->name;
    if (!wanted) continue;
    const auto scan = [=] {
      HostDevice device(*k);
      const Segment segment{buffer, count};
      GradStats stats;
      device.scan(nullptr, {.segments = {&segment, 1}, .stored = type, .total = &stats});
      sink = stats.zeros;
    };
    const auto apply = [=, &outputs] {
      HostDevice device(*k);
      device.apply(nullptr, {.data = buffer, .count = count, .stored = type, .outputs = &outputs});
    };
    loops.push_back({std::string("scan ") + k->name, scan, {}});
    loops.push_back({std::string("apply ") + k->name, apply, {}});
  }
  return loops;
}

void report(const Options& o, const char* type, std::size_t bytes, const std::vector<Loop>& loops,
            bool last) {
  const double read = median(loops[0].seconds);
  const double scale = median(loops[1].seconds);
  if (o.json) std::printf("  {\"type\": \"%s\", \"loops\": [", type);
  for (std::size_t i = 0; i < loops.size(); ++i) {
    const double seconds = median(loops[i].seconds);
    const double rate = static_cast<double>(bytes) / seconds * 1e-9;
    const bool writes = i == 1 || loops[i].name.starts_with("apply");
    const double ratio = (writes ? scale : read) / seconds;
    if (o.json) {
      std::printf("%s\n    {\"name\": \"%s\", \"gb_per_second\": %.3f, \"of_plain\": %.3f}",
                  i == 0 ? "" : ",", loops[i].name.c_str(), rate, ratio);
    } else {
      std::printf("%-5s %-16s %8.2f GB/s  %.3f of the plain %s loop\n", type, loops[i].name.c_str(), rate,
                  ratio, writes ? "scale" : "read");
    }
  }
  if (o.json) std::printf("]}%s\n", last ? "" : ",");
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  if (const int status = parse(argc, argv, o); status != 0) return status;
  const std::size_t bytes = o.mib << 20;
  unsigned char* buffer = map_buffer(bytes);
  if (buffer == nullptr) {
    std::fprintf(stderr, "bench_host_scan: no memory for %zu MiB\n", o.mib);
    return 1;
  }
  Outputs outputs;
  outputs.found_inf = 0;
  if (o.json) {
    std::printf("{\"mib\": %zu, \"rounds\": %d, \"best\": \"%s\", \"types\": [\n", o.mib, o.rounds,
                host::best_kernels().name);
  }
  constexpr ElementType kTypes[] = {ElementType::kFp32, ElementType::kFp16, ElementType::kBf16,
                                    ElementType::kFp64};
  for (const ElementType type : kTypes) {
    fill(buffer, bytes, type);
    std::vector<Loop> loops = make_loops(o, buffer, bytes, type, outputs);
    run_interleaved(loops, o.rounds);
    report(o, element_type_name(type), bytes, loops, type == ElementType::kFp64);
  }
  if (o.json) std::printf("]}\n");
  return 0;
}

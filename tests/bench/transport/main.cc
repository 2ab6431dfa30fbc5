// Latency and bandwidth of the transport's all-reduce, ranks as processes of this host.
//
//   transport_bench [-n ranks] [-t auto|tcp|shm] [-b bytes] [-i iterations] [-j]
//
// Prints, from rank 0: p50 and p99 of one all-reduce (fp32 sum, in place) and bytes / p50; with -j as JSON.
// Buffers are touched, and huge-page advised, before anything is timed. Not a test: nothing here can fail a
// build.
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/ucx/table.h"

namespace {

struct Arguments {
  int ranks = 2;
  std::string transports = "auto";
  size_t bytes = 64;
  int iterations = 0;
  bool json = false;
};

const sgt_table& transport() {
  return *stepgate::transport::table(SGT_ABI_VERSION);
}

[[noreturn]] void die(const sgt_error& error) {
  std::fprintf(stderr, "transport_bench: %s\n", error.message);
  std::exit(1);
}

void* pages(size_t bytes) {
  constexpr size_t kHuge = size_t{1} << 21;
  const size_t rounded = (bytes + kHuge - 1) / kHuge * kHuge;
  void* memory = std::aligned_alloc(kHuge, rounded);
  madvise(memory, rounded, MADV_HUGEPAGE);
  std::memset(memory, 0, rounded);
  return memory;
}

double one(sgt_world* world, void* buffer, size_t count) {
  sgt_error error{};
  const auto begin = std::chrono::steady_clock::now();
  if (transport().allreduce_wait(world, buffer, buffer, count, SGT_FLOAT32, SGT_SUM, &error) != SGT_OK)
    die(error);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void report(const Arguments& arguments, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const double p50 = times[times.size() / 2], p99 = times[times.size() * 99 / 100];
  const char* form =
      arguments.json
          ? "{\"ranks\": %d, \"transports\": \"%s\", \"bytes\": %zu, \"p50_us\": %.2f, \"p99_us\": %.2f, "
            "\"gb_per_second\": %.4f, \"iterations\": %zu}\n"
          : "%d ranks %s %zu bytes: p50 %.2f us, p99 %.2f us, %.2f GB/s, %zu iterations\n";
  std::printf(form, arguments.ranks, arguments.transports.c_str(), arguments.bytes, p50 * 1e6, p99 * 1e6,
              static_cast<double>(arguments.bytes) / p50 / 1e9, times.size());
}

int run_rank(const Arguments& arguments, const sgt_unique_id& id, int rank) {
  const sgt_options options{sizeof options, 60, arguments.transports.c_str(), nullptr, nullptr, nullptr};
  sgt_error error{};
  sgt_world* world = nullptr;
  if (transport().world_create(&id, rank, arguments.ranks, &options, &world, &error) != SGT_OK) die(error);
  void* buffer = pages(arguments.bytes);
  const size_t count = arguments.bytes / sizeof(float);
  const int iterations = arguments.iterations > 0    ? arguments.iterations
                         : arguments.bytes > 1 << 20 ? 30
                                                     : 20000;
  for (int i = 0; i < iterations / 10 + 1; ++i) one(world, buffer, count);
  std::vector<double> times;
  times.reserve(static_cast<size_t>(iterations));
  for (int i = 0; i < iterations; ++i) times.push_back(one(world, buffer, count));
  if (rank == 0) report(arguments, std::move(times));
  transport().world_destroy(world);
  return 0;
}

// A whole number from 1, or the program ends with a word.
size_t number(char option, const char* text) {
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (*text >= '0' && *text <= '9' && *end == '\0' && value != 0) return value;
  std::fprintf(stderr, "transport_bench: -%c is '%s'; allowed: a whole number from 1\n", option, text);
  std::exit(2);
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int option; (option = getopt(argc, argv, "n:t:b:i:j")) != -1;) {
    if (option == 'n') arguments.ranks = static_cast<int>(number('n', optarg));
    if (option == 't') arguments.transports = optarg;
    if (option == 'b') arguments.bytes = number('b', optarg);
    if (option == 'i') arguments.iterations = static_cast<int>(number('i', optarg));
    if (option == 'j') arguments.json = true;
    if (option == '?') std::exit(2);
  }
  return arguments;
}

}  // namespace

// As whoever opens the transport must (README.md of collectives/ucx). With UCX's hooks in mmap, a fork beside
// the thread that serves the id may leave their lock held in the child for ever. UCX reads these when it is
// loaded.
void make_ucx_safe(char** argv) {
  if (getenv("UCX_MEM_EVENTS") != nullptr) return;
  for (const auto& [name, value] : {std::pair{"UCX_ERROR_SIGNALS", ""}, std::pair{"UCX_DEBUG_SIGNO", "0"},
                                    std::pair{"UCX_HANDLE_ERRORS", "none"}, std::pair{"UCX_MEM_EVENTS", "n"},
                                    std::pair{"UCX_WARN_UNUSED_ENV_VARS", "n"}})
    setenv(name, value, 1);
  execv("/proc/self/exe", argv);
}

int main(int argc, char** argv) {
  make_ucx_safe(argv);
  const Arguments arguments = parse(argc, argv);
  sgt_unique_id id;
  sgt_error error{};
  if (transport().unique_id(&id, &error) != SGT_OK) die(error);
  // The ranks are forked before UCX is used for the first time, which is allowed.
  std::vector<pid_t> children;
  for (int rank = 0; rank < arguments.ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) std::exit(run_rank(arguments, id, rank));
    children.push_back(child);
  }
  int failures = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    failures += status != 0;
  }
  return failures;
}

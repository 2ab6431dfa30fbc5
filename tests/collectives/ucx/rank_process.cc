// One rank as a process of its own, for tests that kill, stop or fork it.
//
//   transport_rank_process <id in hex | new> <rank> <size> <transports> <timeout seconds> <what>
//
// what: sum     all-reduce of 1 Mi floats until something goes wrong
//       small   the same with 16 floats
//       parent  as sum, after forking a child that outlives it and holds copies of its sockets
//       idle    joins the world, then sleeps without taking part
//       once    one all-reduce, then destroys the world
//       drop    all-reduces of 100,000 floats; rank 1 drops its rights after the first
// With `new` it makes the id itself and says it first. Says "ready" on standard output once the first
// operation (of `idle`: the world) is done, and at the end one line "status culprit message". Exit status 0
// unless the world did not come about.
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tests/collectives/ucx/ranks.h"

namespace stepgate::transport::testing {
namespace {

sgt_unique_id parse_hex(const std::string& hex) {
  sgt_unique_id id{};
  for (size_t i = 0; i < sizeof id; ++i)
    id.bytes[i] = static_cast<unsigned char>(std::strtoul(hex.substr(2 * i, 2).c_str(), nullptr, 16));
  return id;
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void say(const Outcome& outcome) {
  say(std::to_string(outcome.status) + " " + std::to_string(outcome.error.culprit) + " " +
      outcome.error.message);
}

Outcome one_sum(Rank& rank, std::vector<float>& data) {
  data.assign(data.size(), 1.0f);
  return rank.allreduce(data.data(), data.data(), data.size(), SGT_FLOAT32, SGT_SUM);
}

Outcome sum_for_ever(Rank& rank, size_t count) {
  std::vector<float> data(count);
  Outcome outcome = one_sum(rank, data);
  say("ready");
  while (outcome.status == SGT_OK) outcome = one_sum(rank, data);
  return outcome;
}

// As a service that begins as root does; without rights to drop the process hides its memory.
bool drop_rights() {
  constexpr uid_t kNobody = 65534;
  if (prctl(PR_SET_DUMPABLE, 0) != 0) return false;
  return getuid() != 0 ||
         (setresgid(kNobody, kNobody, kNobody) == 0 && setresuid(kNobody, kNobody, kNobody) == 0);
}

Outcome sums_without_rights(Rank& rank) {
  std::vector<float> data(100000);
  Outcome outcome = one_sum(rank, data);
  if (rank.rank == 1 && !drop_rights()) outcome.status = SGT_SYSTEM;
  for (int i = 0; i < 3 && outcome.status == SGT_OK; ++i) {
    outcome = one_sum(rank, data);
    if (data[static_cast<size_t>(i)] != static_cast<float>(rank.size)) outcome.status = SGT_SYSTEM;
  }
  return outcome;
}

// A child such as a data loader that notices late that its parent is gone.
[[noreturn]] Outcome linger() {
  ::close(STDOUT_FILENO);
  sleep(20);
  _exit(0);
}

Outcome take_part(Rank& rank, const std::string& what) {
  std::vector<float> data(1000);
  if (what == "sum") return sum_for_ever(rank, size_t{1} << 20);
  if (what == "small") return sum_for_ever(rank, 16);
  if (what == "parent") return fork() == 0 ? linger() : sum_for_ever(rank, size_t{1} << 20);
  if (what == "drop") return sums_without_rights(rank);
  if (what == "once") return one_sum(rank, data);
  say("ready");
  for (;;) pause();
}

sgt_unique_id obtain_id(const std::string& argument) {
  if (argument != "new") return parse_hex(argument);
  const sgt_unique_id id = new_id();
  say(to_hex(id));
  return id;
}

int run(char** argv) {
  Rank rank{std::atoi(argv[2]), std::atoi(argv[3])};
  const Setting setting{argv[4], std::atof(argv[5])};
  const Outcome made = create(obtain_id(argv[1]), rank.rank, rank.size, setting, &rank.world);
  if (made.status != SGT_OK) return say(made), 3;
  say(take_part(rank, argv[6]));
  transport().world_destroy(rank.world);
  return 0;
}

}  // namespace
}  // namespace stepgate::transport::testing

int main(int argc, char** argv) {
  return argc == 7 ? stepgate::transport::testing::run(argv) : 2;
}

// What the plane's links cost rank 0: memory, descriptors, threads, and the time of a look at all of them.
//
//   bin/plane_bench [LINKS]        default 64; prints one JSON object
//
// The other ends are children that answer every turn at once, so a round is one turn of every link.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "collectives/ucx/table.h"
#include "plugin/core/plane/link.h"

namespace {

using stepgate::plane::Frame;
using stepgate::plane::Link;
using stepgate::plane::Turn;
using Clock = std::chrono::steady_clock;

const std::atomic<bool> never{false};

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  long pages = 0, resident = 0;
  file >> pages >> resident;
  return static_cast<double>(resident * ::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

long entries(const char* folder) {
  const std::filesystem::directory_iterator begin(folder);
  return static_cast<long>(std::distance(begin, std::filesystem::directory_iterator()));
}

[[noreturn]] void other_end(const sgt_table& table, int to) {
  sgt_unique_id id{};
  sgt_error error{};
  if (table.unique_id(&id, &error) != SGT_OK || ::write(to, &id, sizeof id) != sizeof id) ::_exit(1);
  Link link(table, 1, never);
  if (!link.open(id, 600)) ::_exit(1);
  while (link.begin(Frame{})) {
    Turn turn = Turn::kUnderWay;
    while ((turn = link.look()) == Turn::kUnderWay) ::usleep(1000);
    if (turn != Turn::kDone) break;
  }
  ::_exit(0);
}

double one_round(std::vector<std::unique_ptr<Link>>& links) {
  const auto begin = Clock::now();
  for (auto& link : links) {
    if (!link->begin(Frame{})) std::exit(1);
  }
  for (std::size_t done = 0; done < links.size();) {
    for (auto& link : links) done += link->look() == Turn::kDone ? 1 : 0;
    ::usleep(1000);
  }
  return microseconds_since(begin);
}

double one_idle_look(std::vector<std::unique_ptr<Link>>& links) {
  const auto begin = Clock::now();
  for (auto& link : links) link->look();
  return microseconds_since(begin);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 64;
  const sgt_table& table = *stepgate::transport::table(SGT_ABI_VERSION);
  std::vector<int> pipes;
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {  // before the first world: a child of a process that has one may not
    int ends[2];
    if (::pipe(ends) != 0) return 1;
    children.push_back(::fork());
    if (children.back() == 0) other_end(table, ends[1]);
    ::close(ends[1]);
    pipes.push_back(ends[0]);
  }
  std::vector<sgt_unique_id> ids(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    if (::read(pipes[static_cast<std::size_t>(i)], &ids[static_cast<std::size_t>(i)],
               sizeof(sgt_unique_id)) != sizeof(sgt_unique_id)) {
      return 1;
    }
    ::close(pipes[static_cast<std::size_t>(i)]);
  }
  const double before_mib = resident_mib();
  const long before_fds = entries("/proc/self/fd");
  std::vector<std::unique_ptr<Link>> links;
  std::vector<double> opening, rounds, looks;
  for (const sgt_unique_id& id : ids) {
    const auto begin = Clock::now();
    links.push_back(std::make_unique<Link>(table, 0, never));
    if (!links.back()->open(id, 60)) return std::fprintf(stderr, "%s\n", links.back()->error().c_str()), 1;
    opening.push_back(microseconds_since(begin));
  }
  for (int i = 0; i < 20; ++i) rounds.push_back(one_round(links));
  for (auto& link : links) static_cast<void>(link->begin(Frame{}));
  ::usleep(100000);
  for (auto& link : links) link->look();
  for (int i = 0; i < 100; ++i) looks.push_back(one_idle_look(links));
  std::printf(
      "{\"links\": %d, \"resident_mib\": %.1f, \"descriptors\": %ld, \"threads\": %ld, "
      "\"open_us\": %.0f, \"round_us\": %.0f, \"idle_look_us\": %.1f}\n",
      count, resident_mib() - before_mib, entries("/proc/self/fd") - before_fds, entries("/proc/self/task"),
      median(opening), median(rounds), median(looks));
  std::fflush(stdout);
  for (const pid_t child : children) ::kill(child, SIGKILL);
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  ::_exit(0);
}

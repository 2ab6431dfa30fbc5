// What publishing costs: the publisher's share of a core while a gate makes 1,000 steps a second, and the
// time of a scrape of a page with many series.
//
//   bench_publisher [--json] [--seconds N] [--rounds N] [--ranges N] [--series N]
//
// The share is the process's processor time without the thread that plays the gate, over wall time; the
// page's HTTP server is up in it, and in the second figure scraped once a second by another process. All
// figures are medians over the rounds. Run it on an idle machine: time lost to others is not counted, but
// cold caches are.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "metrics/publisher.h"
#include "tests/metrics/fake_source.h"
#include "tests/metrics/page_text.h"

namespace {

using namespace stepgate::metrics;        // NOLINT(google-build-using-namespace): a program of one file
using namespace stepgate::metrics::test;  // NOLINT(google-build-using-namespace)
using stepgate::ScanPhase;
using Clock = std::chrono::steady_clock;

constexpr int kStepsPerSecond = 1000;
constexpr int kSeriesPerBucket = 7;

struct Options {
  bool json = false;
  int seconds = 3;
  int rounds = 5;
  int ranges = 64;
  int series = 2000;
};

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void declare(FakeSource& source, int ranges) {
  source.set_enforcing(true);
  for (int i = 0; i < ranges; ++i)
    source.name_range(static_cast<std::uint32_t>(i), "layers." + std::to_string(i) + ".weight");
}

void fill(FakeSource& source, std::uint64_t step, int ranges) {
  for (int i = 0; i < ranges; ++i) {
    const auto id = static_cast<std::uint32_t>(i);
    source.put(range(step, id, ScanPhase::kLocal, 1 << 20, 1000, 10, 0.5));
    source.put(range(step, id, ScanPhase::kReduced, 1 << 20, 1000, 10, 0.5));
  }
}

PublisherOptions live(int ranges) {
  PublisherOptions options;
  options.exposition.first_port = 0;
  options.bucket_cap = static_cast<std::size_t>(ranges);
  return options;
}

// A process that asks for the page once a second until it is killed.
pid_t scraper(const std::string& url) {
  const pid_t child = fork();
  if (child != 0) return child;
  for (;;) {
    http_get(url);
    sleep(1);
  }
}

// One round: the publisher's processor time as a share of the wall time, in percent.
double share_of_a_core(const Options& o, bool scraped) {
  FakeSource source;
  declare(source, o.ranges);
  Publisher publisher(live(o.ranges));
  publisher.add_source(&source);
  const pid_t child = scraped ? scraper(publisher.url()) : 0;
  const auto period = std::chrono::microseconds(1'000'000 / kStepsPerSecond);
  const auto begin = Clock::now();
  const double process = seconds_of(CLOCK_PROCESS_CPUTIME_ID), gate = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  for (int step = 1; step <= o.seconds * kStepsPerSecond; ++step) {
    source.push(applied(static_cast<std::uint64_t>(step)));
    // The table of ranges is looked at every 50 ms, so between two looks only its newest state counts.
    if (step % 25 == 0) fill(source, static_cast<std::uint64_t>(step), o.ranges);
    std::this_thread::sleep_until(begin + step * period);
  }
  const double used =
      seconds_of(CLOCK_PROCESS_CPUTIME_ID) - process - (seconds_of(CLOCK_THREAD_CPUTIME_ID) - gate);
  const double wall = since(begin);
  if (child > 0) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  publisher.remove_source(&source);
  const std::string page = publisher.page();
  if (sample(page, "stepgate_steps_total") != std::to_string(o.seconds * kStepsPerSecond) ||
      sample(page, "stepgate_events_dropped_total") != "0") {
    std::fprintf(stderr, "bench_publisher: steps are missing from the page\n");
    std::exit(1);
  }
  return 100 * used / wall;
}

struct Scrapes {
  std::size_t series = 0;
  std::size_t bytes = 0;
  double milliseconds = 0;         // over loopback, the reader included
  double render_milliseconds = 0;  // the page's text alone
};

Scrapes scrape(const Options& o) {
  FakeSource source;
  const int ranges = std::max(1, (o.series - 120) / kSeriesPerBucket);  // about 120 have no bucket
  declare(source, ranges);
  source.push(applied(1));
  fill(source, 1, ranges);
  Publisher publisher(live(ranges));
  publisher.add_source(&source);
  for (int i = 0; i < 3; ++i) publisher.poll_once();
  Scrapes result;
  std::vector<double> whole, render;
  for (int i = 0; i < 10 * o.rounds; ++i) {
    auto begin = Clock::now();
    const std::string body = http_get(publisher.url()).body;
    whole.push_back(1e3 * since(begin));
    begin = Clock::now();
    result.bytes = publisher.page().size();
    render.push_back(1e3 * since(begin));
    result.series = samples(body).size();
  }
  result.milliseconds = median(whole);
  result.render_milliseconds = median(render);
  publisher.remove_source(&source);
  return result;
}

double median_share(const Options& o, bool scraped) {
  std::vector<double> shares;
  for (int i = 0; i < o.rounds; ++i) shares.push_back(share_of_a_core(o, scraped));
  return median(shares);
}

void print(const Options& o) {
  const double quiet = median_share(o, false), scraped = median_share(o, true);
  const Scrapes s = scrape(o);
  const char* form =
      o.json ? "{\"steps_per_second\": %d, \"ranges\": %d, \"rounds\": %d, \"core_percent\": %.3f, "
               "\"core_percent_scraped_every_second\": %.3f, \"scrape\": {\"series\": %zu, \"bytes\": %zu, "
               "\"milliseconds\": %.3f, \"render_milliseconds\": %.3f}}\n"
             : "%d steps a second, %d ranges, median of %d rounds: %.3f %% of a core; scraped every second "
               "%.3f %%\n%zu series, %zu bytes: scrape %.3f ms, of it the text %.3f ms\n";
  std::printf(form, kStepsPerSecond, o.ranges, o.rounds, quiet, scraped, s.series, s.bytes, s.milliseconds,
              s.render_milliseconds);
}

bool take(Options* o, const std::string& name, int value) {
  if (value < 1 || value > 100000) return false;
  if (name == "--seconds")
    o->seconds = value;
  else if (name == "--rounds")
    o->rounds = value;
  else if (name == "--ranges")
    o->ranges = value;
  else if (name == "--series")
    o->series = value;
  else
    return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--json") {
      o.json = true;
    } else if (i + 1 == argc || !take(&o, name, std::atoi(argv[++i]))) {
      std::fprintf(
          stderr,
          "bench_publisher: bad argument '%s'; allowed: --json, --seconds N, --rounds N, --ranges N, "
          "--series N (1 to 100000)\n",
          name.c_str());
      return 2;
    }
  }
  print(o);
  return 0;
}

// The goals that one device can show, as ratios taken in one process over the same buffers.
#include <cstdio>

#include "tests/gpu/timing_cases.h"

int main(int argc, char** argv) {
  using namespace stepgate::gpu;
  const Options options = options_from(argc, argv);
  Session session(options);
  Results results(options.results, "timing");
  if (options.standin) results.without_speeds();
  Rivals rivals(session, options);
  Timer timer(session, options.small ? 4096 : std::size_t{512} << 20, options.small ? 2 : 24);
  count_calls(session, results);
  time_scans(session, options, rivals, timer, results);
  time_in_place(session, options, rivals, timer, results);
  time_step(session, options, timer, results);
  return results.failed() ? 1 : 0;
}

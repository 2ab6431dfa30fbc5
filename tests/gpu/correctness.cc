// Everything about the device that is right or wrong; timing.cc has what is fast or slow.
#include <cstdio>

#include "tests/gpu/cases.h"
#include "tests/gpu/inputs.h"
#include "tests/test_seed.h"

int main(int argc, char** argv) {
  using namespace stepgate::gpu;
  const Options options = options_from(argc, argv);
  Session session(options);
  std::printf("device: %s, compute capability %d.%d\n", session.name().c_str(), session.capability() / 10,
              session.capability() % 10);
  test_seed();
  Results results(options.results, "correctness");
  scan_cases(session, options, results);
  product_cases(session, options, results);
  grid_cases(session, options, results);
  Results steps(options.results, "steps");
  step_cases(session, options, steps);
  return results.failed() || steps.failed() ? 1 : 0;
}

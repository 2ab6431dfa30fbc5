// A publisher that moves only when told, and its options.
//
// Thread: the test's. A Manual owns its publisher; sources are declared before it.
#pragma once

#include <string>
#include <vector>

#include "metrics/publisher.h"
#include "tests/metrics/fake_source.h"
#include "tests/metrics/page_text.h"

namespace stepgate::metrics::test {

// No HTTP, no thread, a clock that stands at 1,800,000,000 s.
inline PublisherOptions quiet_options() {
  PublisherOptions options;
  options.exposition.http = false;
  options.start_thread = false;
  options.now = [] { return 1.8e9; };
  return options;
}

// The page of one source after as many polls as ranges need to be settled.
inline std::string page_of(Publisher& publisher, int polls = 1) {
  for (int i = 0; i < polls; ++i) publisher.poll_once();
  return publisher.page();
}

}  // namespace stepgate::metrics::test

// Publisher: turns what RecordSources hold into a metrics page. One per process (or per rank, where
// ranks are threads); no global state.
//
//   Publisher publisher(options);          // opens the page, starts the thread; never throws
//   publisher.add_source(&gate);           // its series appear with the next poll
//   publisher.url();                       // "http://127.0.0.1:19470/metrics"
//   publisher.remove_source(&gate);        // returns when it will not be called again
//
// Threads: every function from any thread. Sources are called from the publisher's thread alone
// (with start_thread = false: from whoever calls poll_once or remove_source). A source may not call
// back into the publisher. Order: a source outlives its registration; the destructor looks at every
// source a last time, so sources outlive the publisher or are removed first.
// Locks: one mutex of its own, then the registry's page lock.
// Fork: in a child all calls do nothing and the destructor frees nothing: its threads are not there.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "metrics/anomaly.h"
#include "metrics/exposition.h"
#include "metrics/job_source.h"
#include "metrics/record_source.h"

namespace stepgate::metrics {

inline constexpr std::size_t kDefaultBucketCap = 64;  // buckets with series of their own, per gate

struct PublisherOptions {
  ExpositionOptions exposition;
  std::size_t bucket_cap = kDefaultBucketCap;
  AnomalyThresholds thresholds;
  std::chrono::milliseconds period{50};
  double textfile_seconds = 5;  // between two writes of the textfile
  bool start_thread = true;     // false: only poll_once moves anything (tests)
  std::function<double()> now;  // Unix seconds; empty: the system's clock
  // Called from the publisher's thread (or the constructor's caller); may not call back.
  std::function<void(std::string_view)> log;       // one line about what could not be opened
  std::function<void(const Anomaly&)> on_anomaly;  // every finding
};

class Publisher {
 public:
  explicit Publisher(PublisherOptions options) noexcept;
  explicit Publisher(const ExpositionOptions& exposition) noexcept;
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  void add_source(RecordSource* source);
  void remove_source(RecordSource* source);
  // What rank 0 knows of the others; at most one at a time. Removed as sources are.
  void add_job_source(JobSource* source);
  void remove_job_source();
  // The live page, "" while there is none (a textfile only, or nothing).
  std::string url() const;
  // One look at every source, now.
  void poll_once();
  // The page's text as a scrape would get it (without the server's own families).
  std::string page() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;  // null where it could not be made at all
};

}  // namespace stepgate::metrics

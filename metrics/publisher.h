// Publisher: turns what RecordSources hold into a metrics page. One per process (or per rank, where
// ranks are threads); no global state.
//
//   Publisher publisher(options);          // opens the page, starts its threads; never throws
//   publisher.add_source(&gate);           // its series appear with the next poll
//   publisher.url();                       // "http://127.0.0.1:19470/metrics"
//   publisher.remove_source(&gate);        // returns when it will not be called again
//
// Threads: every function from any thread, stop() and the destructor from one. Sources are called by one
// thread at a time, the publisher's or the caller of poll_once and remove_source. A source may not call
// back into the publisher. Order: a source outlives its registration; stop() (else the destructor) looks at
// every source a last time, so sources outlive it or are removed first.
// Locks: one mutex of its own, then the registry's page lock. Another one, for files, is taken alone, by
// a thread for files: what hangs in a file system holds up the textfile and the target file, neither the page
// nor a caller (with start_thread = false: that of poll_once).
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
// How long the end waits for a file that is being written. A healthy one takes milliseconds.
inline constexpr double kStopSeconds = 2;

struct PublisherOptions {
  ExpositionOptions exposition;
  std::size_t bucket_cap = kDefaultBucketCap;
  AnomalyThresholds thresholds;
  std::chrono::milliseconds period{50};
  double textfile_seconds = 5;  // between two writes of the textfile
  bool start_thread = true;     // false: only poll_once moves anything (tests)
  std::function<double()> now;  // Unix seconds; empty: the system's clock
  // Called from the publisher's thread, the constructor's or remove_source's caller; may not call back.
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

  // A last look at every source and a last textfile; then the page and the target file are gone, and nothing
  // is called any more. False: a thread is still in a file (or a source) when the time is up. It is left
  // there, and what it needs stays.
  bool stop(double seconds) noexcept;

  // Does nothing after stop().
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

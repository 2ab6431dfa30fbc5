// Debian's Prometheus, started on a free port with a data folder of its own, and what it answers.
//
// Thread: one. Ownership: ends and reaps the server with the object, whatever the test came to.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/process.h"

namespace stepgate::test {

bool prometheus_is_installed();

// One series' newest value, as /api/v1/query gives it.
struct Scraped {
  std::map<std::string, std::string> labels;  // with __name__
  double value = 0;
};

class Prometheus {
 public:
  // config: a whole prometheus.yml. Throws where the server does not come up.
  explicit Prometheus(const std::string& config);
  ~Prometheus();
  Prometheus(const Prometheus&) = delete;
  Prometheus& operator=(const Prometheus&) = delete;

  // Empty where it cannot be had (yet).
  std::vector<Scraped> query(const std::string& expression) const;
  // What the server has printed, once it has ended; ends it.
  std::string last_words();

 private:
  bool ready() const;
  bool start();

  TemporaryFolder folder_;
  int port_ = 0;
  std::unique_ptr<Process> process_;
};

// Asks `condition` until it holds. False at the deadline.
bool eventually(const std::function<bool()>& condition,
                std::chrono::seconds deadline = std::chrono::seconds(60));

// The value of the one series with that name and those labels; NaN where there is none or more than one.
double value_of(const std::vector<Scraped>& all, const std::string& name,
                const std::map<std::string, std::string>& labels);

}  // namespace stepgate::test

// Outlet: where a process's page goes: the HTTP page, else the textfile, and the target file that
// says where the page is. Nothing here throws out; what fails is said once through the log.
//
// Thread: construction in the publisher's constructor, url() from any thread, the rest under the
// publisher's mutex. Ownership: the publisher. Fork: see HttpPage and TargetFile.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "metrics/exposition.h"
#include "metrics/http_page.h"
#include "metrics/page_file.h"
#include "metrics/record_source.h"
#include "metrics/registry.h"

namespace stepgate::metrics {

using Log = std::function<void(std::string_view)>;

class Outlet {
 public:
  Outlet(const ExpositionOptions& options, double textfile_seconds, std::shared_ptr<const Registry> registry,
         Log log);

  const std::string& url() const { return url_; }  // fixed by the constructor
  // Who publishes, known with the first source; later calls change nothing.
  void announce(const Identity& who);
  // Writes the textfile where there is one and it is due, or `last`.
  void write_textfile(double now, bool last);

 private:
  void open();
  void say(const std::string& line) const;
  std::string target(const Identity& who) const;

  const ExpositionOptions options_;
  const double textfile_seconds_;
  const std::shared_ptr<const Registry> registry_;
  const Log log_;
  const std::shared_ptr<Page> page_;  // the server holds it weakly
  std::unique_ptr<HttpPage> http_;
  std::string url_;
  std::unique_ptr<TargetFile> target_file_;
  bool textfile_ = false;
  bool textfile_failed_ = false;
  double textfile_written_ = 0;
  bool announced_ = false;
  Identity who_;
  HeldFile textfile_held_;
};

}  // namespace stepgate::metrics

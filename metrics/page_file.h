// Files that stand for a page: the textfile (the page itself, for a node agent to collect) and the
// target file (where the page is, for Prometheus' file discovery). Both appear whole or not at all:
// a temporary name, then a rename.
//
// Thread: the publisher's. Ownership: the publisher; a TargetFile removes its file when it dies in
// the process that wrote it. The textfile stays: it holds a job's last numbers.
#pragma once

#include <prometheus/metric_family.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "metrics/exposition.h"
#include "metrics/record_source.h"

namespace stepgate::metrics {

// Writes text to path by way of a temporary file in the same folder. False: *error names both.
bool replace_file(const std::string& path, const std::string& text, std::string* error);

// <dir>/stepgate_rank<rank>.prom
std::string textfile_path(const std::string& dir, int rank);
// The page as text. One agent collects the files of all local ranks as one page, so here, and only
// here, every series carries its rank.
std::string textfile_page(std::vector<prometheus::MetricFamily> families, int rank);

// <dir>/stepgate_<job>_<run>_rank<rank>.json, letters that a file name should not have replaced.
std::string target_path(const std::string& dir, const Identity& who);
// [{"targets": ["host:port"], "labels": {...}}]
std::string target_json(const Identity& who, const std::string& target);

class TargetFile {
 public:
  // nullptr when it cannot be written; *error says why.
  static std::unique_ptr<TargetFile> write(const std::string& dir, const Identity& who,
                                           const std::string& target, std::string* error);
  ~TargetFile();
  TargetFile(const TargetFile&) = delete;
  TargetFile& operator=(const TargetFile&) = delete;

 private:
  explicit TargetFile(std::string path);
  const std::string path_;
  const pid_t owner_;
};

}  // namespace stepgate::metrics

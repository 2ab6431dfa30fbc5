// Files that stand for a page: the textfile (the page itself, for a node agent to collect) and the
// target file (where the page is, for Prometheus' file discovery). Both appear whole or not at all:
// a temporary name, then a rename.
//
// Thread: the publisher's. Ownership: the publisher; a TargetFile removes its file when it dies in
// the process that wrote it. The textfile stays: it holds a job's last numbers, until a rank that starts
// later on this host sweeps.
#pragma once

#include <prometheus/metric_family.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "metrics/exposition.h"
#include "metrics/record_source.h"
#include "metrics/stale_files.h"

namespace stepgate::metrics {

// Writes text to path by way of a temporary file in the same folder. False: *error names both. *held: the
// new file, locked for as long as it is held (stale_files.h); the lock is there before the name is.
bool replace_file(const std::string& path, const std::string& text, HeldFile* held, std::string* error);

// <dir>/stepgate_<job>_<run>_rank<rank>.prom and .json: letters that a file name should not have replaced,
// long names cut and told apart by a hash.
std::string textfile_path(const std::string& dir, const Identity& who);
std::string target_path(const std::string& dir, const Identity& who);

// The page as text. One agent collects the files of all ranks of all jobs of a host as one page, so here,
// and only here, every series says whose it is: rank, local_rank, host, job_name, run_id.
std::string textfile_page(std::vector<prometheus::MetricFamily> families, const Identity& who);
// [{"targets": ["host:port"], "labels": {...}}]; `scheme` is what Prometheus is to speak.
std::string target_json(const Identity& who, const std::string& target, const std::string& scheme);

// Removes what dead ranks of this host have left in either kind of folder; "" is none.
void sweep_textfiles(const std::string& dir, const Identity& who);
void sweep_targets(const std::string& dir, const Identity& who);

class TargetFile {
 public:
  // nullptr when it cannot be written; *error says why.
  static std::unique_ptr<TargetFile> write(const std::string& dir, const Identity& who,
                                           const std::string& target, const std::string& scheme,
                                           std::string* error);
  ~TargetFile();
  TargetFile(const TargetFile&) = delete;
  TargetFile& operator=(const TargetFile&) = delete;

 private:
  TargetFile(std::string path, HeldFile held);
  const std::string path_;
  const HeldFile held_;
  const pid_t owner_;
};

}  // namespace stepgate::metrics

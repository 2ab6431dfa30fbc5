// FolderOutlet: what a process writes into folders: the textfile, and the target file that says where its
// page is. Each call takes as long as the file system does, and one that hangs does not come back. Nothing
// here throws out but for want of memory; what fails is said once through the log.
//
// Thread: one at a time (the publisher's mutex for files, under which nobody waits who may not be held up).
// Ownership: the publisher. Fork: see TargetFile.
#pragma once

#include <memory>
#include <string>

#include "metrics/outlet.h"
#include "metrics/page_file.h"

namespace stepgate::metrics {

struct Announcement {
  Identity who;
  std::string target, scheme;  // "" there is no page
};

class FolderOutlet {
 public:
  FolderOutlet(const ExpositionOptions& options, double textfile_seconds,
               std::shared_ptr<const Registry> registry, Log log);

  // Who publishes, and where; the first call counts.
  void announce(const Announcement& news);
  // Writes the textfile where it is due, or `last`. wanted: there is no other page.
  void write_textfile(bool wanted, double now, bool last);
  // The target file goes; the textfile stays.
  void withdraw() { target_file_.reset(); }

 private:
  void sweep(const Identity& who) const;
  void say(const std::string& line) const;

  const std::string textfile_dir_, file_sd_dir_;
  const double textfile_seconds_;
  const std::shared_ptr<const Registry> registry_;
  const Log log_;
  bool announced_ = false;
  Identity who_;
  std::unique_ptr<TargetFile> target_file_;
  HeldFile textfile_held_;
  bool textfile_failed_ = false;
  double textfile_written_ = 0;
};

}  // namespace stepgate::metrics

#include "metrics/folder_outlet.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace stepgate::metrics {

FolderOutlet::FolderOutlet(const ExpositionOptions& options, double textfile_seconds,
                           std::shared_ptr<const Registry> registry, Log log)
    : textfile_dir_(options.textfile_dir),
      file_sd_dir_(options.file_sd_dir),
      textfile_seconds_(textfile_seconds),
      registry_(std::move(registry)),
      log_(std::move(log)) {}

void FolderOutlet::announce(const Announcement& news) {
  if (announced_) return;
  announced_ = true;
  who_ = news.who;
  sweep(who_);
  if (news.target.empty() || file_sd_dir_.empty()) return;
  std::string error;
  target_file_ = TargetFile::write(file_sd_dir_, who_, news.target, news.scheme, &error);
  if (!target_file_) say(absl::StrCat("no target file: ", error));
}

// Once per host: in a folder that all hosts share a sweep opens the files of all ranks.
void FolderOutlet::sweep(const Identity& who) const {
  if (who.local_rank != 0) return;
  sweep_textfiles(textfile_dir_, who);
  sweep_targets(file_sd_dir_, who);
}

void FolderOutlet::write_textfile(bool wanted, double now, bool last) {
  if (!wanted || !announced_) return;
  if (!last && now < textfile_written_ + textfile_seconds_) return;
  textfile_written_ = now;
  std::string error;
  const std::string text = textfile_page(registry_->Collect(), who_);
  const bool ok = replace_file(textfile_path(textfile_dir_, who_), text, &textfile_held_, &error);
  if (!ok && !textfile_failed_) say(absl::StrCat("no metrics textfile: ", error));
  textfile_failed_ = !ok;
}

void FolderOutlet::say(const std::string& line) const {
  if (log_) log_(line);
}

}  // namespace stepgate::metrics

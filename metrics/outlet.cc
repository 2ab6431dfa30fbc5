#include "metrics/outlet.h"

#include "absl/strings/str_cat.h"

namespace stepgate::metrics {
namespace {

constexpr const char* kAnyAddress = "0.0.0.0";

}  // namespace

Outlet::Outlet(const ExpositionOptions& options, double textfile_seconds,
               std::shared_ptr<const Registry> registry, Log log)
    : options_(options),
      textfile_seconds_(textfile_seconds),
      registry_(std::move(registry)),
      log_(std::move(log)),
      page_(std::make_shared<Page>(registry_)) {
  open();
}

void Outlet::open() {
  std::string error;
  std::string notes;
  if (options_.http) http_ = HttpPage::open(options_, page_, &error, &notes);
  if (http_) {
    if (!notes.empty()) say(notes);
    const std::string host = options_.address == kAnyAddress ? "127.0.0.1" : options_.address;
    url_ = absl::StrCat(http_->scheme(), "://", host, ":", http_->port(), kPagePath);
    return;
  }
  textfile_ = !options_.textfile_dir.empty();
  if (error.empty()) return;
  say(textfile_
          ? absl::StrCat(error, "; the page is written to files in '", options_.textfile_dir, "' instead")
          : absl::StrCat(error, "; this process publishes no metrics"));
}

void Outlet::announce(const Identity& who) {
  if (announced_) return;
  announced_ = true;
  who_ = who;
  sweep_textfiles(options_.textfile_dir, who);
  sweep_targets(options_.file_sd_dir, who);
  if (!http_ || options_.file_sd_dir.empty()) return;
  std::string error;
  target_file_ = TargetFile::write(options_.file_sd_dir, who, target(who), http_->scheme(), &error);
  if (!target_file_) say(absl::StrCat("no target file: ", error));
}

// All interfaces is no address to scrape: the host's name is.
std::string Outlet::target(const Identity& who) const {
  const bool any = options_.address == kAnyAddress && !who.host.empty();
  const std::string host = any ? who.host : options_.address;
  return absl::StrCat(host, ":", http_->port());
}

void Outlet::write_textfile(double now, bool last) {
  if (!textfile_ || !announced_) return;
  if (!last && now < textfile_written_ + textfile_seconds_) return;
  textfile_written_ = now;
  std::string error;
  const std::string text = textfile_page(registry_->Collect(), who_);
  const bool ok = replace_file(textfile_path(options_.textfile_dir, who_), text, &textfile_held_, &error);
  if (!ok && !textfile_failed_) say(absl::StrCat("no metrics textfile: ", error));
  textfile_failed_ = !ok;
}

void Outlet::say(const std::string& line) const {
  if (log_) log_(line);
}

}  // namespace stepgate::metrics

#include "metrics/outlet.h"

#include "absl/strings/str_cat.h"

namespace stepgate::metrics {
namespace {

constexpr const char* kAnyAddress = "0.0.0.0";

}  // namespace

Outlet::Outlet(const ExpositionOptions& options, const std::shared_ptr<const Registry>& registry,
               const Log& log)
    : address_(options.address), page_(std::make_shared<Page>(registry)) {
  std::string error;
  std::string notes;
  const auto say = [&log](const std::string& line) {
    if (log) log(line);
  };
  if (options.http) http_ = HttpPage::open(options, page_, &error, &notes);
  if (http_) {
    if (!notes.empty()) say(notes);
    const std::string host = address_ == kAnyAddress ? "127.0.0.1" : address_;
    scheme_ = http_->scheme();
    port_ = http_->port();
    url_ = absl::StrCat(scheme_, "://", host, ":", port_, kPagePath);
    return;
  }
  textfile_ = !options.textfile_dir.empty();
  if (error.empty()) return;
  say(textfile_
          ? absl::StrCat(error, "; the page is written to files in '", options.textfile_dir, "' instead")
          : absl::StrCat(error, "; this process publishes no metrics"));
}

// All interfaces is no address to scrape: the host's name is.
std::string Outlet::target(const Identity& who) const {
  if (port_ == 0) return "";
  const bool any = address_ == kAnyAddress && !who.host.empty();
  return absl::StrCat(any ? who.host : address_, ":", port_);
}

}  // namespace stepgate::metrics

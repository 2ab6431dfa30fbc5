// Outlet: where a process's page goes: the HTTP page, else the textfile of a folder. It reaches for files of
// the page's security when it opens, and for none later (folder_outlet.h does that).
//
// Thread: construction in the publisher's constructor, close() by whoever stops the publisher, the rest from
// any thread between the two. Ownership: the publisher. Fork: see HttpPage.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "metrics/exposition.h"
#include "metrics/http_page.h"
#include "metrics/record_source.h"
#include "metrics/registry.h"

namespace stepgate::metrics {

using Log = std::function<void(std::string_view)>;

class Outlet {
 public:
  Outlet(const ExpositionOptions& options, const std::shared_ptr<const Registry>& registry, const Log& log);

  const std::string& url() const { return url_; }  // fixed by the constructor
  const std::string& scheme() const { return scheme_; }
  // What Prometheus is told to scrape; "" there is no page.
  std::string target(const Identity& who) const;
  // No page, but a folder for it.
  bool textfile() const { return textfile_; }
  // The page goes away.
  void close() { http_.reset(); }

 private:
  const std::string address_;
  const std::shared_ptr<Page> page_;  // the server holds it weakly
  std::unique_ptr<HttpPage> http_;
  std::string url_, scheme_;
  int port_ = 0;
  bool textfile_ = false;
};

}  // namespace stepgate::metrics

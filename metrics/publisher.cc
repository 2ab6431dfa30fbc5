#include "metrics/publisher.h"

#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "metrics/job_feed.h"
#include "metrics/outlet.h"
#include "metrics/signal_guard.h"
#include "metrics/source_set.h"

namespace stepgate::metrics {
namespace {

double system_seconds() {
  using std::chrono::duration;
  using std::chrono::system_clock;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

PublisherOptions with_clock(PublisherOptions options) {
  if (!options.now) options.now = system_seconds;
  return options;
}

}  // namespace

class Publisher::Impl {
 public:
  explicit Impl(PublisherOptions options);
  ~Impl();

  void add(RecordSource* source);
  void remove(RecordSource* source);
  void set_job(JobSource* source);
  void poll();
  const std::string& url() const { return outlet_.url(); }
  std::string page() const { return prometheus::TextSerializer().Serialize(registry_->Collect()); }
  bool forked() const { return getpid() != owner_; }

 private:
  void start();
  void loop();
  void finish();
  void poll_locked();
  void poll_job(std::vector<Anomaly>& found);
  void admit_joining();
  void drop_leaving(std::vector<Anomaly>& found);
  void hand_out(const std::vector<Anomaly>& found) const;
  void say(const std::string& line) const;

  const PublisherOptions options_;
  const pid_t owner_;
  const std::shared_ptr<Registry> registry_;
  Outlet outlet_;

  std::mutex mutex_;  // guards all below, and the outlet's files
  std::condition_variable wake_;
  std::condition_variable dropped_;
  SourceSet sources_;
  std::unique_ptr<JobFeed> job_;
  std::vector<RecordSource*> joining_;
  std::vector<RecordSource*> leaving_;
  bool stopping_ = false;
  std::thread thread_;  // set once, by the constructor
};

Publisher::Impl::Impl(PublisherOptions options)
    : options_(with_clock(std::move(options))),
      owner_(getpid()),
      registry_(std::make_shared<Registry>()),
      outlet_(options_.exposition, options_.textfile_seconds, registry_, options_.log),
      sources_(*registry_, options_.bucket_cap, options_.thresholds, options_.now) {
  if (options_.start_thread) start();
}

Publisher::Impl::~Impl() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    finish();
  }
}

// The last look at every source, in the thread that made the others.
void Publisher::Impl::finish() {
  std::vector<Anomaly> found;
  try {
    admit_joining();
    poll_job(found);
    sources_.remove_all(&found);
    hand_out(found);
    outlet_.write_textfile(options_.now(), true);
  } catch (const std::exception& e) {
    say(absl::StrCat("the last metrics poll failed: ", e.what()));
  }
}

void Publisher::Impl::start() {
  const SignalGuard guard;
  try {
    thread_ = std::thread([this] { loop(); });
  } catch (const std::exception& e) {
    say(absl::StrCat("the metrics thread cannot start: ", e.what(), "; the page stands still"));
  }
}

void Publisher::Impl::loop() {
  std::unique_lock lock(mutex_);
  const auto news = [this] { return stopping_ || !joining_.empty() || !leaving_.empty(); };
  while (!stopping_) {
    poll_locked();
    wake_.wait_for(lock, options_.period, news);
  }
  finish();
}

void Publisher::Impl::add(RecordSource* source) {
  const std::lock_guard lock(mutex_);
  joining_.push_back(source);
  wake_.notify_all();
}

void Publisher::Impl::remove(RecordSource* source) {
  std::unique_lock lock(mutex_);
  leaving_.push_back(source);
  wake_.notify_all();
  if (!thread_.joinable()) poll_locked();
  dropped_.wait(lock, [&] { return std::count(leaving_.begin(), leaving_.end(), source) == 0; });
}

void Publisher::Impl::set_job(JobSource* source) {
  const std::lock_guard lock(mutex_);
  std::vector<Anomaly> found;
  if (source == nullptr) poll_job(found);  // a last look
  job_ = source != nullptr ? std::make_unique<JobFeed>(*registry_, *source) : nullptr;
  hand_out(found);
}

// After the gates' poll: the first gate's series are there by then.
void Publisher::Impl::poll_job(std::vector<Anomaly>& found) {
  if (job_ == nullptr) return;
  std::vector<Anomaly> mine;
  job_->poll(&mine);
  sources_.count(mine);
  found.insert(found.end(), mine.begin(), mine.end());
}

void Publisher::Impl::poll() {
  const std::lock_guard lock(mutex_);
  poll_locked();
}

// Nothing that fails in here may reach the thread's end: that would end the job's process.
void Publisher::Impl::poll_locked() {
  std::vector<Anomaly> found;
  try {
    admit_joining();
    sources_.poll(&found);
    poll_job(found);
  } catch (const std::exception& e) {
    say(absl::StrCat("a metrics poll failed: ", e.what()));
  }
  drop_leaving(found);
  try {
    hand_out(found);
    outlet_.write_textfile(options_.now(), false);
  } catch (const std::exception& e) {
    say(absl::StrCat("publishing metrics failed: ", e.what()));
  }
}

void Publisher::Impl::admit_joining() {
  while (!joining_.empty()) {
    RecordSource* source = joining_.front();
    joining_.erase(joining_.begin());
    sources_.add(*source);
    outlet_.announce(source->identity());
  }
}

void Publisher::Impl::drop_leaving(std::vector<Anomaly>& found) {
  if (leaving_.empty()) return;
  for (const RecordSource* source : leaving_) sources_.remove(source, &found);
  leaving_.clear();
  dropped_.notify_all();
}

void Publisher::Impl::hand_out(const std::vector<Anomaly>& found) const {
  if (!options_.on_anomaly) return;
  for (const Anomaly& anomaly : found) options_.on_anomaly(anomaly);
}

void Publisher::Impl::say(const std::string& line) const {
  if (options_.log) options_.log(line);
}

Publisher::Publisher(PublisherOptions options) noexcept {
  const auto log = options.log;
  try {
    impl_ = std::make_unique<Impl>(std::move(options));
  } catch (const std::exception& e) {
    if (log) log(e.what());
  }
}

Publisher::Publisher(const ExpositionOptions& exposition) noexcept
    : Publisher([&] {
        PublisherOptions options;
        options.exposition = exposition;
        return options;
      }()) {}

Publisher::~Publisher() {
  // In a forked child the threads are not there to be joined and a lock may be held for ever.
  if (impl_ && impl_->forked()) static_cast<void>(impl_.release());
}

void Publisher::add_source(RecordSource* source) {
  if (source != nullptr && impl_ && !impl_->forked()) impl_->add(source);
}

void Publisher::remove_source(RecordSource* source) {
  if (source != nullptr && impl_ && !impl_->forked()) impl_->remove(source);
}

void Publisher::add_job_source(JobSource* source) {
  if (source != nullptr && impl_ && !impl_->forked()) impl_->set_job(source);
}

void Publisher::remove_job_source() {
  if (impl_ && !impl_->forked()) impl_->set_job(nullptr);
}

std::string Publisher::url() const {
  return impl_ ? impl_->url() : "";
}

void Publisher::poll_once() {
  if (impl_ && !impl_->forked()) impl_->poll();
}

std::string Publisher::page() const {
  return impl_ && !impl_->forked() ? impl_->page() : "";
}

}  // namespace stepgate::metrics

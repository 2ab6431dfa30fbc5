#include "metrics/publisher.h"

#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "metrics/folder_outlet.h"
#include "metrics/job_feed.h"
#include "metrics/outlet.h"
#include "metrics/signal_guard.h"
#include "metrics/source_set.h"

namespace stepgate::metrics {
namespace {

using Clock = std::chrono::steady_clock;

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

  void add(RecordSource* source);
  void remove(RecordSource* source) noexcept;
  void set_job(JobSource* source);
  void poll();
  bool stop(double seconds) noexcept;
  std::string url() const { return closed_ ? "" : outlet_.url(); }
  std::string page() const { return prometheus::TextSerializer().Serialize(registry_->Collect()); }
  bool forked() const { return getpid() != owner_; }

 private:
  void start();
  void loop() noexcept;
  void loop_over_files() noexcept;
  void end_threads(bool polled, bool written) noexcept;
  bool look() noexcept;
  void write_files(bool last) noexcept;
  bool lock_until(Clock::time_point deadline, std::unique_lock<std::mutex>* lock) noexcept;
  // With mutex_ held:
  void poll_all(std::vector<Anomaly>& found);
  void poll_job(std::vector<Anomaly>& found);
  void admit_joining();
  void hand_out(const std::vector<Anomaly>& found) const;
  void say(const char* what, const char* why) const noexcept;

  const PublisherOptions options_;
  const pid_t owner_;
  const std::shared_ptr<Registry> registry_;
  Outlet outlet_;

  std::mutex files_mutex_;  // taken without mutex_; held for as long as a file system takes
  FolderOutlet folders_;

  std::mutex mutex_;  // guards all below; nothing is waited for under it but a source
  std::condition_variable wake_;
  SourceSet sources_;
  std::unique_ptr<JobFeed> job_;
  std::vector<RecordSource*> joining_;
  bool announced_ = false;
  std::optional<Announcement> news_;  // not yet in the folders
  bool stopping_ = false;
  bool polled_ = false;                   // for the last time
  bool written_ = false;                  // likewise
  std::atomic<bool> left_behind_{false};  // the threads are to end where they are
  std::atomic<bool> closed_{false};
  // Set once, by the constructor. The second one is there where a folder is configured: a file system that
  // hangs must not stop the page.
  std::thread thread_, files_thread_;
};

Publisher::Impl::Impl(PublisherOptions options)
    : options_(with_clock(std::move(options))),
      owner_(getpid()),
      registry_(std::make_shared<Registry>()),
      outlet_(options_.exposition, registry_, options_.log),
      folders_(options_.exposition, options_.textfile_seconds, registry_, options_.log),
      sources_(*registry_, options_.bucket_cap, options_.thresholds, options_.now) {
  if (options_.start_thread) start();
}

void Publisher::Impl::start() {
  const SignalGuard guard;
  const ExpositionOptions& where = options_.exposition;
  try {
    thread_ = std::thread([this] { loop(); });
    if (where.textfile_dir.empty() && where.file_sd_dir.empty()) return;
    files_thread_ = std::thread([this] { loop_over_files(); });
  } catch (const std::exception& e) {
    say(thread_.joinable() ? "the thread for metrics files cannot start, and none is written"
                           : "the metrics thread cannot start, and the page stands still",
        e.what());
  }
}

void Publisher::Impl::loop() noexcept {
  while (!look()) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, options_.period, [this] { return stopping_ || !joining_.empty(); });
  }
  const std::lock_guard lock(mutex_);
  polled_ = true;
  wake_.notify_all();
}

void Publisher::Impl::loop_over_files() noexcept {
  const auto due = [this] { return polled_ || left_behind_ || news_.has_value(); };
  for (bool last = false; !last && !left_behind_;) {
    {
      std::unique_lock lock(mutex_);
      if (outlet_.textfile()) {
        wake_.wait_for(lock, options_.period, due);
      } else {
        wake_.wait(lock, due);
      }
      last = polled_;
    }
    write_files(last);
  }
  const std::lock_guard lock(mutex_);
  written_ = true;
  wake_.notify_all();
}

// One look at every source; true when it was the last one. Nothing that fails in here may reach the thread's
// end: that would end the job's process.
bool Publisher::Impl::look() noexcept {
  const std::lock_guard lock(mutex_);
  if (left_behind_) return true;  // it was given up meanwhile, and its sources may be gone
  try {
    std::vector<Anomaly> found;
    poll_all(found);
    hand_out(found);
  } catch (const std::exception& e) {
    say("a metrics poll failed", e.what());
  }
  return stopping_;
}

void Publisher::Impl::poll_all(std::vector<Anomaly>& found) {
  admit_joining();
  if (stopping_) {
    poll_job(found);
    sources_.remove_all(&found);
  } else {
    sources_.poll(&found);
    poll_job(found);
  }
}

// Without mutex_: a file system that hangs holds up the thread for files and nobody else.
void Publisher::Impl::write_files(bool last) noexcept {
  if (left_behind_) return;
  try {
    std::optional<Announcement> news;
    {
      const std::lock_guard lock(mutex_);
      news.swap(news_);
    }
    const std::lock_guard lock(files_mutex_);
    if (news) folders_.announce(*news);
    folders_.write_textfile(outlet_.textfile(), options_.now(), last);
    if (last) folders_.withdraw();
  } catch (const std::exception& e) {
    say("publishing metrics failed", e.what());
  }
}

// A thread that hangs in a source has mutex_: then nothing here may be touched any more, the page included,
// for a scrape would wait for the same.
bool Publisher::Impl::stop(double seconds) noexcept {
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::unique_lock lock(mutex_, std::defer_lock);
  if (left_behind_) return false;
  if (!lock_until(deadline, &lock)) {
    left_behind_ = true;
    end_threads(false, false);
    return false;
  }
  if (stopping_) return true;
  stopping_ = true;
  wake_.notify_all();
  if (!thread_.joinable()) {
    lock.unlock();
    look();
    write_files(true);
  } else {
    const auto ended = [this] { return polled_ && (written_ || !files_thread_.joinable()); };
    left_behind_ = !wake_.wait_until(lock, deadline, ended);
    const bool polled = polled_, written = written_;
    lock.unlock();
    end_threads(polled, written);
  }
  closed_ = true;
  outlet_.close();
  return !left_behind_;
}

void Publisher::Impl::end_threads(bool polled, bool written) noexcept {
  if (thread_.joinable()) polled ? thread_.join() : thread_.detach();
  if (files_thread_.joinable()) written ? files_thread_.join() : files_thread_.detach();
}

// Not std::timed_mutex: a condition waits on this one.
bool Publisher::Impl::lock_until(Clock::time_point deadline, std::unique_lock<std::mutex>* lock) noexcept {
  while (!lock->try_lock()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void Publisher::Impl::add(RecordSource* source) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  joining_.push_back(source);
  wake_.notify_all();
}

// The last look is the caller's: the thread may be writing a file.
void Publisher::Impl::remove(RecordSource* source) noexcept {
  const std::lock_guard lock(mutex_);
  std::vector<Anomaly> found;
  try {
    admit_joining();
  } catch (const std::exception& e) {
    say("a metrics poll failed", e.what());
  }
  std::erase(joining_, source);
  sources_.remove(source, &found);
  try {
    hand_out(found);
  } catch (const std::exception& e) {
    say("a metrics poll failed", e.what());
  }
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
  look();
  write_files(false);
}

void Publisher::Impl::admit_joining() {
  while (!joining_.empty()) {
    RecordSource* source = joining_.front();
    joining_.erase(joining_.begin());
    sources_.add(*source);
    if (announced_) continue;
    Identity who = source->identity();
    std::string target = outlet_.target(who);
    news_ = {std::move(who), std::move(target), outlet_.scheme()};
    announced_ = true;
    wake_.notify_all();
  }
}

void Publisher::Impl::hand_out(const std::vector<Anomaly>& found) const {
  if (!options_.on_anomaly) return;
  for (const Anomaly& anomaly : found) options_.on_anomaly(anomaly);
}

void Publisher::Impl::say(const char* what, const char* why) const noexcept {
  try {
    if (options_.log) options_.log(absl::StrCat(what, ": ", why));
  } catch (...) {
    // Out of memory for a log line.
  }
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

// In a forked child the threads are not there to be joined and a lock may be held for ever. A thread that was
// left behind needs all of it.
Publisher::~Publisher() {
  if (impl_ && (impl_->forked() || !impl_->stop(kStopSeconds))) static_cast<void>(impl_.release());
}

bool Publisher::stop(double seconds) noexcept {
  return !impl_ || impl_->forked() || impl_->stop(seconds);
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

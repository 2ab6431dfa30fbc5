// A file system, or a source, that does not come back: what it may hold up, and what not.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "tests/metrics/publisher_fixture.h"

namespace stepgate::metrics::test {
namespace {

// Where a thread of the publisher hangs until it is let go.
class Hang {
 public:
  void here() {
    hangs_ = true;
    released_.wait();
  }
  void wait_for_it() const {
    while (!hangs_) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // CTest's is the deadline
  }
  void release() { release_.set_value(); }

 private:
  std::atomic<bool> hangs_{false};
  std::promise<void> release_;
  std::shared_future<void> released_ = release_.get_future().share();
};

PublisherOptions served_options() {
  PublisherOptions options;
  options.exposition.first_port = 0;
  options.period = std::chrono::milliseconds(1);
  return options;
}

// What a stuck thread needs stays for good; reachable for a leak checker.
Publisher& for_good(PublisherOptions options) {
  static auto& all = *new std::vector<Publisher*>;  // no destructor of it runs before the checker
  all.push_back(new Publisher(std::move(options)));
  return *all.back();
}

// A file that fails is said through the log, in the middle of the work on files.
TEST(Hung, AFolderHoldsUpItsOwnFilesAlone) {
  const auto hang = std::make_shared<Hang>();
  PublisherOptions options = served_options();
  options.exposition.file_sd_dir = "/nonexistent/folder";
  options.log = [hang](std::string_view) { hang->here(); };
  Publisher& publisher = for_good(std::move(options));
  FakeSource first, second;
  second.set_enforcing(true);
  publisher.add_source(&first);
  hang->wait_for_it();
  publisher.add_source(&second);
  for (std::uint64_t step = 1; step <= 3; ++step) second.push(applied(step));
  const std::string steps = "\nstepgate_steps_total{gate=\"0-2\"} 3\n";
  while (http_get(publisher.url()).body.find(steps) == std::string::npos) continue;  // the page goes on
  publisher.remove_source(&second);
  publisher.remove_source(&first);
  EXPECT_FALSE(publisher.stop(0.05)) << "its thread is still there";
  EXPECT_EQ(publisher.url(), "") << "the page is not";
  EXPECT_FALSE(publisher.stop(0.05));
  publisher.add_source(&second);
  const std::uint64_t calls = second.calls();
  hang->release();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(second.calls(), calls) << "nothing is looked at any more";
}

class HungSource : public FakeSource {
 public:
  explicit HungSource(Hang* hang) : hang_(*hang) {}
  Counters counters() const override {
    hang_.here();
    return FakeSource::counters();
  }

 private:
  Hang& hang_;
};

TEST(Hung, ASourceDoesNotHoldUpTheEnd) {
  static auto& hang = *new Hang;  // both outlive the thread that is left behind, and the exit
  static auto& source = *new HungSource(&hang);
  Publisher& publisher = for_good(served_options());
  publisher.add_source(&source);
  hang.wait_for_it();
  EXPECT_FALSE(publisher.stop(0.05));
  EXPECT_FALSE(publisher.stop(0.05));
  hang.release();
}

TEST(Hung, NothingDoesAndAllOfItIsGone) {
  TempDir dir;
  PublisherOptions options = served_options();
  options.exposition.file_sd_dir = dir.path();
  FakeSource source;
  Publisher publisher(std::move(options));
  publisher.add_source(&source);
  while (dir.files().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(publisher.stop(30));
  EXPECT_TRUE(dir.files().empty()) << "the target file";
  EXPECT_EQ(publisher.url(), "");
  EXPECT_TRUE(publisher.stop(30));
  publisher.remove_source(&source);
  publisher.add_source(&source);
}

}  // namespace
}  // namespace stepgate::metrics::test

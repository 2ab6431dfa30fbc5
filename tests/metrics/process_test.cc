// What a publisher may do to its process: threads, signals, forks.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <thread>

#include "metrics/http_page.h"
#include "metrics/signal_guard.h"
#include "tests/metrics/publisher_fixture.h"

namespace stepgate::metrics::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kDeadline{30};

bool eventually(const std::function<bool()>& condition) {
  const auto end = steady_clock::now() + kDeadline;
  while (!condition()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

PublisherOptions fast_options() {
  PublisherOptions options;
  options.exposition.first_port = 0;
  options.period = milliseconds(5);
  return options;
}

TEST(Thread, PublishesByItself) {
  FakeSource source;
  source.set_enforcing(true);
  Publisher publisher(fast_options());
  publisher.add_source(&source);
  for (std::uint64_t step = 1; step <= 50; ++step) source.push(applied(step));
  EXPECT_TRUE(
      eventually([&] { return sample(http_get(publisher.url()).body, "stepgate_steps_total") == "50"; }));
  EXPECT_EQ(source.calling_threads(), 1u);
  source.push(applied(51));
  publisher.remove_source(&source);
  EXPECT_EQ(sample(publisher.page(), "stepgate_steps_total"), "51") << "the last look";
  const std::uint64_t calls = source.calls();
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(source.calls(), calls) << "never again after remove_source";
}

TEST(Thread, TheLastLookIsTheThreadsOwnToo) {
  FakeSource source;
  std::uint64_t calls = 0;
  {
    Publisher publisher(fast_options());
    publisher.add_source(&source);
    calls = source.calls();
  }
  EXPECT_GT(source.calls(), calls) << "sources still registered at the end are read once more";
  EXPECT_EQ(source.calling_threads(), 1u);
}

TEST(Thread, ManySourcesComeAndGoWhileScrapesRun) {
  Publisher publisher(fast_options());
  std::atomic<bool> stop{false};
  std::thread scraper([&] {
    while (!stop) http_get(publisher.url());
  });
  std::vector<std::thread> jobs;
  for (int j = 0; j < 3; ++j) {
    jobs.emplace_back([&publisher, j] {
      for (int i = 0; i < 10; ++i) {
        FakeSource source;
        Identity who = source.identity();
        who.gate = "gate" + std::to_string(j);
        source.set_identity(who);
        source.set_enforcing(true);
        publisher.add_source(&source);
        for (std::uint64_t step = 1; step <= 5; ++step) source.push(applied(step));
        publisher.remove_source(&source);
      }
    });
  }
  for (std::thread& job : jobs) job.join();
  stop = true;
  scraper.join();
  double steps = 0;
  for (const auto& [series, value] : samples(publisher.page())) {
    if (series.rfind("stepgate_steps_total", 0) == 0) steps += std::stod(value);
  }
  EXPECT_EQ(steps, 3 * 10 * 5) << "no step is lost on the way out";
}

TEST(Thread, StartsAndStopsManyTimes) {
  for (int i = 0; i < 20; ++i) {
    FakeSource source;
    Publisher publisher(fast_options());
    publisher.add_source(&source);
    if (i % 2 == 0) publisher.remove_source(&source);
  }
}

void use_default_sigpipe() {
  std::signal(SIGPIPE, SIG_DFL);
}

sighandler_t disposition_of_sigpipe() {
  struct sigaction now {};
  sigaction(SIGPIPE, nullptr, &now);
  return now.sa_handler;
}

// More than once: the server's threads set it when they get to run.
TEST(Signals, SigpipeKeepsItsDisposition) {
  for (int i = 0; i < 20; ++i) {
    const sighandler_t wanted = i % 2 == 0 ? SIG_DFL : SIG_IGN;
    const auto before = std::signal(SIGPIPE, wanted);
    {
      Publisher publisher(fast_options());
      ASSERT_NE(publisher.url(), "");
      EXPECT_EQ(disposition_of_sigpipe(), wanted);
    }
    EXPECT_EQ(disposition_of_sigpipe(), wanted);
    std::signal(SIGPIPE, before);
  }
}

// A scraper that hangs up in the middle must not kill a job whose SIGPIPE is the default.
TEST(Signals, AScraperThatHangsUpDoesNotKillTheProcess) {
  EXPECT_EXIT(
      {
        use_default_sigpipe();
        Publisher publisher(fast_options());
        FakeSource source;
        for (std::uint32_t i = 0; i < 64; ++i) {
          source.name_range(i, "a-rather-long-bucket-name-to-make-the-page-large-" + std::to_string(i));
          source.put(range(1, i, ScanPhase::kReduced, 100));
        }
        publisher.add_source(&source);
        for (int i = 0; i < 20; ++i) hang_up(publisher.url());
        const bool alive = http_get(publisher.url()).status == 200;
        publisher.remove_source(&source);
        _exit(alive ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

std::atomic<int> handled{0};
std::atomic<bool> handled_elsewhere{false};
pthread_t main_thread;
void on_signal(int) {
  ++handled;
  if (pthread_equal(pthread_self(), main_thread) == 0) handled_elsewhere = true;
}

// Signals for the process must find the job's thread: all of ours block them, and ours do not
// take the mask of the caller away.
TEST(Signals, AHandlerStillRunsOnTheMainThread) {
  main_thread = pthread_self();
  handled = 0;
  handled_elsewhere = false;
  const auto before = std::signal(SIGUSR1, on_signal);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  {
    Publisher publisher(fast_options());
    ASSERT_NE(publisher.url(), "");
    sigset_t after;
    pthread_sigmask(SIG_SETMASK, nullptr, &after);
    EXPECT_EQ(sigismember(&after, SIGUSR1), sigismember(&mask, SIGUSR1));
    for (int i = 0; i < 200; ++i) {
      kill(getpid(), SIGUSR1);
      const int wanted = i + 1;
      ASSERT_TRUE(eventually([&] { return handled.load() >= wanted; }));
    }
  }
  std::signal(SIGUSR1, before);
  EXPECT_FALSE(handled_elsewhere);
}

TEST(Signals, TheGuardBlocksAllButFaults) {
  sigset_t inside, after;
  {
    const SignalGuard guard;
    pthread_sigmask(SIG_SETMASK, nullptr, &inside);
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int s : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGPIPE, SIGALRM, SIGPROF}) {
    EXPECT_EQ(sigismember(&inside, s), 1) << s;
    EXPECT_EQ(sigismember(&after, s), 0) << s;
  }
  for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) EXPECT_EQ(sigismember(&inside, s), 0) << s;
}

// The exit status of a child within the deadline; -1 (and the child killed) if it hangs.
int wait_for(pid_t child) {
  int status = 0;
  if (eventually([&] { return waitpid(child, &status, WNOHANG) == child; })) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return -1;
}

TEST(Fork, AChildUsesAndDestroysItsCopyWithoutHarm) {
  TempDir dir;
  PublisherOptions options = fast_options();
  options.exposition.file_sd_dir = dir.path();
  FakeSource source;
  source.set_enforcing(true);
  source.push(applied(1));
  auto publisher = std::make_unique<Publisher>(std::move(options));
  publisher->add_source(&source);
  ASSERT_TRUE(eventually([&] { return !dir.files().empty(); }));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    publisher->poll_once();
    publisher->add_source(&source);
    publisher->remove_source(&source);
    publisher.reset();
    _exit(17);
  }
  EXPECT_EQ(wait_for(child), 17);
  EXPECT_EQ(dir.files().size(), 1u) << "the parent's target file is not the child's to remove";
  EXPECT_EQ(http_get(publisher->url()).status, 200) << "and the parent's page lives on";
  publisher.reset();
  EXPECT_TRUE(dir.files().empty());
}

// The page guards itself too, whoever holds it.
TEST(Fork, AChildDestroysAPageWithoutItsThreads) {
  const auto registry = std::make_shared<Registry>();
  const auto collectable = std::make_shared<Page>(registry);
  std::string error;
  ExpositionOptions options;
  options.first_port = 0;
  auto page = HttpPage::open(options, collectable, &error);
  ASSERT_NE(page, nullptr) << error;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    page.reset();
    _exit(0);
  }
  EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(http_get("127.0.0.1", page->port(), kPagePath).status, 200);
}

// A fork may fall into the moment when a lock of ours is held.
TEST(Fork, ManyChildrenWhileThePublisherWorks) {
  FakeSource source;
  source.set_enforcing(true);
  PublisherOptions options = fast_options();
  options.period = milliseconds(0);
  auto publisher = std::make_unique<Publisher>(std::move(options));
  publisher->add_source(&source);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      publisher.reset();
      _exit(0);
    }
    ASSERT_EQ(wait_for(child), 0) << "child " << i;
  }
  publisher->remove_source(&source);
}

// Through the child's normal exit, static destructors and all.
TEST(Fork, AChildExitsNormally) {
  auto publisher = std::make_unique<Publisher>(fast_options());
  // Reachable for a leak checker that runs in the child and does not find this stack there.
  static Publisher* reachable = nullptr;
  reachable = publisher.get();
  ASSERT_NE(reachable, nullptr);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) std::exit(0);
  EXPECT_EQ(wait_for(child), 0);
}

}  // namespace
}  // namespace stepgate::metrics::test

// The whole page: its text for a fixed run, promtool's opinion, and a scrape over loopback.
#include <gtest/gtest.h>

#include <new>

#include "metrics/http_page.h"
#include "tests/metrics/publisher_fixture.h"

namespace stepgate::metrics::test {
namespace {

constexpr const char* kGolden = "tests/metrics/golden/page.txt";

StepRecord timed(StepRecord r, double scan, double agreement) {
  r.scan_seconds = scan;
  r.agreement_seconds = agreement;
  return r;
}

// Rank 3 of 4: six steps, of which the second is clipped, the third has rank 2's NaN, the fourth
// overflows in the reduction, the fifth is vetoed; the scale is halved twice and then doubled.
void fixed_run(FakeSource& source) {
  source.set_enforcing(true);
  source.name_range(0, "embedding");
  source.name_range(1, "head");
  source.push(timed(applied(1, 0.5), 0.001, 0.0001));
  StepRecord clipped = timed(applied(2, 4), 0.001, 0.0001);
  clipped.decision.clip = 0.25;
  source.push(clipped);
  StepRecord nan = timed(skipped(3, Reason::kNan, 2), 0.004, 0.0001);
  nan.local_sum.nan = 3;
  source.push(nan);
  StepRecord inf = timed(skipped(4, Reason::kInf, kOffenderReduction, 32768), 0.001, 0.003);
  inf.local_sum.inf = 2;
  source.push(inf);
  source.push(skipped(5, Reason::kVeto, kOffenderUnknown, 16384));
  StepRecord grown = timed(applied(6, 0.25, 16384), 0.001, 0.0001);
  grown.scaler.scale = 32768;
  grown.scaler.growth_tracker = 0;
  source.push(grown);
  source.put(range(6, 0, ScanPhase::kReduced, 1000, 250, 125, 2.5));
  source.put(range(6, 1, ScanPhase::kReduced, 100, 10, 0, 0.125));
  source.put(range(6, 1, ScanPhase::kLocal, 100, 10, 0, 0.5));
  source.change([](Counters& c) {
    c.reductions_scanned = {12, 0, 0};
    c.reductions_passed = {6, 0, 1};
    c.scanned_bytes = {2400, 4800};
    c.ranges_missing = 1;
  });
}

std::string fixed_page() {
  FakeSource source;
  fixed_run(source);
  Publisher publisher(quiet_options());
  publisher.add_source(&source);
  const std::string text = page_of(publisher, 3);
  publisher.remove_source(&source);
  return text;
}

TEST(PageTest, TextOfAFixedRun) {
  EXPECT_EQ(in_order(fixed_page()), read_file(kGolden)) << in_order(fixed_page());
}

// promtool lints names, units, help texts and the syntax. Silence is its praise.
TEST(PageTest, PromtoolHasNothingToSay) {
  const Outcome outcome = run_program({"promtool", "check", "metrics"}, fixed_page());
  ASSERT_NE(outcome.status, 127) << "promtool is not installed (Debian package prometheus)";
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "");
}

TEST(PageTest, PromtoolWouldSeeAFault) {
  const Outcome outcome =
      run_program({"promtool", "check", "metrics"}, "# TYPE stepgate_bad counter\nstepgate_bad 1\n");
  EXPECT_NE(outcome.status, 0);
}

TEST(PageTest, AnEmptyProcessAndAnObserverPassPromtoolToo) {
  Publisher publisher(quiet_options());
  EXPECT_EQ(page_of(publisher), "");
  FakeSource source;
  publisher.add_source(&source);
  EXPECT_EQ(run_program({"promtool", "check", "metrics"}, page_of(publisher)).output, "");
  publisher.remove_source(&source);
}

PublisherOptions live_options() {
  PublisherOptions options = quiet_options();
  options.exposition.http = true;
  options.exposition.first_port = 0;
  return options;
}

TEST(PageTest, AScrapeOverLoopbackIsThePage) {
  FakeSource source;
  fixed_run(source);
  Publisher publisher(live_options());
  publisher.add_source(&source);
  publisher.poll_once();
  const Response scrape = http_get(publisher.url());
  ASSERT_EQ(scrape.status, 200) << publisher.url();
  EXPECT_EQ(sample(scrape.body, "stepgate_steps_total"), "6");
  EXPECT_EQ(sample(scrape.body, "stepgate_loss_scale"), "32768");
  EXPECT_EQ(run_program({"promtool", "check", "metrics"}, scrape.body).output, "");
  publisher.remove_source(&source);
}

TEST(PageTest, NothingElseIsServed) {
  Publisher publisher(live_options());
  const int port = port_of(publisher.url());
  ASSERT_GT(port, 0);
  for (const char* path :
       {"/", "/etc/passwd", "/../../../../etc/passwd", "/CMakeLists.txt", "/metrics/x/.."}) {
    const Response answer = http_get("127.0.0.1", port, path);
    EXPECT_EQ(answer.body.find("root:"), std::string::npos) << path;
    EXPECT_EQ(answer.body.find("project("), std::string::npos) << path;
    EXPECT_EQ(answer.body.find("Index of"), std::string::npos) << path;
  }
  EXPECT_NE(http_get("127.0.0.1", port, "/CMakeLists.txt").status, 200);
}

class Failing : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override { throw std::bad_alloc(); }
};

TEST(PageTest, AFailureWhileCollectingIsAnEmptyPageNotTheEndOfTheProcess) {
  const auto page = std::make_shared<Page>(std::make_shared<Failing>());
  ExpositionOptions options;
  options.first_port = 0;
  std::string error;
  const auto http = HttpPage::open(options, page, &error);
  ASSERT_NE(http, nullptr) << error;
  const Response answer = http_get("127.0.0.1", http->port(), kPagePath);
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(has_family(answer.body, "stepgate_steps_total"));
}

TEST(PageTest, IsGoneWithItsPublisher) {
  int port = 0;
  {
    Publisher publisher(live_options());
    port = port_of(publisher.url());
    EXPECT_EQ(http_get("127.0.0.1", port, "/metrics").status, 200);
  }
  EXPECT_EQ(http_get("127.0.0.1", port, "/metrics").status, 0);
}

TEST(PageTest, TwoPublishersInOneProcessAreTwoPages) {
  FakeSource a, b;
  a.set_enforcing(true);
  b.set_enforcing(true);
  a.push(applied(1));
  Publisher first(live_options()), second(live_options());
  first.add_source(&a);
  second.add_source(&b);
  first.poll_once();
  second.poll_once();
  EXPECT_EQ(sample(http_get(first.url()).body, "stepgate_steps_total"), "1");
  EXPECT_EQ(sample(http_get(second.url()).body, "stepgate_steps_total"), "0");
  first.remove_source(&a);
  second.remove_source(&b);
}

}  // namespace
}  // namespace stepgate::metrics::test

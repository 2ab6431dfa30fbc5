// Names of any kind: the page stays one that Prometheus reads, its values stay short.
#include "metrics/label.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "metrics/page_file.h"
#include "tests/metrics/publisher_fixture.h"

namespace stepgate::metrics::test {
namespace {

const std::string kBad = "\xef\xbf\xbd";

TEST(LabelText, KeepsWhatAPageCanHold) {
  for (const std::string text :
       {"", "plain", "\"quoted\" \\ back", "two\nlines", "\u00fc \u20ac \U0001f600", "{a=\"b\"} 1"}) {
    EXPECT_EQ(label_text(text), text);
  }
}

TEST(LabelText, ReplacesWhatItCannot) {
  EXPECT_EQ(label_text("a\xff"
                       "b"),
            "a" + kBad + "b");
  EXPECT_EQ(label_text(std::string("a\0b", 3)), "a" + kBad + "b");
  EXPECT_EQ(label_text("\r\t\x7f"), kBad + kBad + kBad);
  EXPECT_EQ(label_text("cut \xe2\x82"), "cut " + kBad + kBad);
  EXPECT_EQ(label_text("\xc0\x80"), kBad + kBad) << "overlong";
  EXPECT_EQ(label_text("\xed\xa0\x80"), kBad + kBad + kBad) << "half of a surrogate pair";
  EXPECT_EQ(label_text("\xf4\x90\x80\x80"), kBad + kBad + kBad + kBad) << "beyond the last code point";
}

TEST(LabelText, LongNamesAreCutBetweenCharactersAndStayDifferent) {
  const std::string exact(kLongestLabel, 'x');
  EXPECT_EQ(label_text(exact), exact);
  const std::string a = label_text(exact + "a"), b = label_text(exact + "b");
  EXPECT_LE(a.size(), kLongestLabel);
  EXPECT_NE(a, b);
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "\u20ac";
  const std::string cut = label_text(wide);
  EXPECT_LE(cut.size(), kLongestLabel);
  EXPECT_EQ(label_text(cut), cut) << "cut within a character";
}

TEST(LabelText, AnyBytesGiveShortUtf8) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 300, '\0');
    for (char& c : text) c = static_cast<char>(random() & 0xff);
    const std::string label = label_text(text);
    ASSERT_LE(label.size(), kLongestLabel) << "seed " << seed;
    ASSERT_EQ(label_text(label), label) << "seed " << seed;
    ASSERT_NO_THROW(static_cast<void>(nlohmann::json(label).dump())) << "seed " << seed;
  }
}

const std::vector<std::string>& hostile() {
  static const std::vector<std::string> names = {"\"",
                                                 "\\",
                                                 "\n",
                                                 "a\"} 1\n# TYPE evil counter\nevil 1",
                                                 "\xff\xfe",
                                                 std::string("nul\0byte", 8),
                                                 "\u202e reversed",
                                                 std::string(5000, 'z'),
                                                 "}",
                                                 "{",
                                                 ",",
                                                 "=",
                                                 "le",
                                                 "\\n",
                                                 "\r\n"};
  return names;
}

TEST(HostileNames, APageStaysValidAndBounded) {
  for (const std::string& name : hostile()) {
    FakeSource source, second;
    Identity who = source.identity();
    who.gate = who.job_name = who.run_id = who.host = who.device = who.nccl_version = who.rule = name;
    source.set_identity(who);
    source.set_enforcing(true);
    source.name_range(0, name);
    source.name_range(1, name + "2");
    source.push(applied(1));
    source.put(range(1, 0, ScanPhase::kReduced, 1000, 250, 125, 2.5));
    source.put(range(1, 1, ScanPhase::kReduced, 1000, 250, 125, 2.5));
    Publisher publisher(quiet_options());
    publisher.add_source(&source);
    publisher.add_source(&second);
    const std::string page = page_of(publisher, 3);
    const Outcome checked = run_program({"promtool", "check", "metrics"}, page);
    EXPECT_EQ(checked.status, 0) << checked.output << page;
    EXPECT_EQ(page.find("\nevil 1"), std::string::npos) << page;
    for (const auto& [series, value] : samples(page)) EXPECT_LT(series.size(), 1000u) << series;
    publisher.remove_source(&source);
    publisher.remove_source(&second);
  }
}

TEST(HostileNames, TheFilesToo) {
  for (const std::string& name : hostile()) {
    TempDir dir;
    FakeSource source;
    Identity who = source.identity();
    who.job_name = who.run_id = who.host = name;
    source.set_identity(who);
    source.set_enforcing(true);
    source.push(applied(1));
    PublisherOptions options = quiet_options();
    options.exposition.textfile_dir = dir.path();
    std::string said;
    options.log = [&](std::string_view line) { said += line; };
    Publisher publisher(std::move(options));
    publisher.add_source(&source);
    publisher.poll_once();
    ASSERT_EQ(dir.files().size(), 1u) << said;
    EXPECT_EQ(
        run_program({"promtool", "check", "metrics"}, read_file(dir.path() + "/" + dir.files()[0])).status,
        0);
    const auto json = nlohmann::json::parse(target_json(who, "a:1", "http"));
    for (const auto& [label, value] : json[0]["labels"].items()) {
      EXPECT_LE(value.get<std::string>().size(), kLongestLabel) << label;
    }
    publisher.remove_source(&source);
  }
}

}  // namespace
}  // namespace stepgate::metrics::test

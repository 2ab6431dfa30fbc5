// The chart's alert rules: promtool's checks and unit tests, and what promtool does not look at.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "metrics/catalogue.h"
#include "tests/metrics/page_text.h"

namespace stepgate::metrics::test {
namespace {

constexpr const char* kChart = "charts/stepgate/";
constexpr const char* kRules = "charts/stepgate/rules/alerts.yaml";
constexpr const char* kTests = "tests/charts/alerts_test.yaml";

// Each alert's own lines, by its name.
std::map<std::string, std::string> alerts() {
  std::map<std::string, std::string> all;
  std::istringstream in(read_file(kRules));
  std::string name;
  const std::regex start("^ +- alert: (\\w+)$");
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (std::regex_match(line, match, start)) name = match[1];
    if (line.find("- name:") != std::string::npos) name.clear();
    if (!name.empty()) all[name] += line + "\n";
  }
  return all;
}

std::string expression(const std::string& alert) {
  const std::size_t begin = alert.find("expr:");
  const std::size_t end = alert.find("labels:");
  return alert.substr(begin, end - begin);
}

std::set<std::string> families_in(const std::string& text) {
  std::set<std::string> names;
  const std::regex name("stepgate_[a-z_]+");
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) names.insert(it->str());
  return names;
}

const FamilyInfo* find_family(const std::string& name) {
  for (const FamilyInfo& f : catalogue()) {
    if (name == f.name) return &f;
  }
  return nullptr;
}

TEST(Alerts, PromtoolAcceptsTheRules) {
  const Outcome outcome = run_program({"promtool", "check", "rules", kRules}, "");
  ASSERT_NE(outcome.status, 127) << "promtool is not installed (Debian package prometheus)";
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("SUCCESS: " + std::to_string(alerts().size()) + " rules found"),
            std::string::npos)
      << outcome.output;
}

TEST(Alerts, FireAndStayQuietAsTheCasesSay) {
  const Outcome outcome = run_program({"promtool", "test", "rules", kTests}, "");
  ASSERT_NE(outcome.status, 127) << "promtool is not installed (Debian package prometheus)";
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(Alerts, EachHasACaseOfBothKinds) {
  const std::string cases = read_file(kTests);
  ASSERT_GE(alerts().size(), 5u);
  for (const auto& [name, text] : alerts()) {
    EXPECT_NE(cases.find("- name: \"" + name + ": fires"), std::string::npos) << name;
    EXPECT_NE(cases.find("- name: \"" + name + ": stays quiet"), std::string::npos) << name;
  }
}

TEST(Alerts, EachSaysWhatItIsWhyAndWhatToDo) {
  for (const auto& [name, text] : alerts()) {
    for (const char* part : {"severity:", "summary:", "cause:", "remedies:"}) {
      EXPECT_NE(text.find(part), std::string::npos) << name << " has no " << part;
    }
  }
}

TEST(Alerts, SpeakOfFamiliesThatExist) {
  for (const auto& [name, text] : alerts()) {
    for (const std::string& family : families_in(text)) {
      EXPECT_NE(find_family(family), nullptr) << name << " names " << family;
    }
  }
}

TEST(Alerts, OnDecisionsRequireEnforce) {
  for (const auto& [name, text] : alerts()) {
    const std::string expr = expression(text);
    bool decisions = false;
    for (const std::string& family : families_in(expr)) {
      const FamilyInfo* info = find_family(family);
      decisions = decisions || (info != nullptr && needs_enforce(*info));
    }
    if (decisions) {
      EXPECT_NE(expr.find("stepgate_enforcing == 1"), std::string::npos) << name;
    }
  }
}

TEST(Chart, IncludesTheFileThatPromtoolChecked) {
  const std::string text = read_file(std::string(kChart) + "templates/prometheusrule.yaml");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(text, match, std::regex("\\.Files\\.Get \"([^\"]+)\"")));
  EXPECT_EQ(kChart + match[1].str(), kRules);
}

}  // namespace
}  // namespace stepgate::metrics::test

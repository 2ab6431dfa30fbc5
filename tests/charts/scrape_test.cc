// The scrape jobs that the documentation shows: they are the chart's files, and promtool accepts them.
// tests/integration/prometheus runs Prometheus under them.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>

#include "metrics/exposition.h"
#include "plugin/core/config_table.h"
#include "tests/metrics/page_text.h"

namespace stepgate::metrics::test {
namespace {

constexpr const char* kPlain = "charts/stepgate/scrape/plain.yaml";
constexpr const char* kSecured = "charts/stepgate/scrape/secured.yaml";

// Without comments and with another root for the files that it names.
std::string configuration(const std::string& path) {
  return std::regex_replace(read_file(path), std::regex("(^|\n)#[^\n]*(?=\n)"), "");
}

std::string moved(const std::string& text, const TempDir& dir) {
  return std::regex_replace(std::regex_replace(text, std::regex("/etc/prometheus"), dir.path()),
                            std::regex("/run/stepgate/targets"), dir.path());
}

Outcome check(const std::string& text, const TempDir& dir) {
  const std::string file = dir.path() + "/prometheus.yml";
  std::ofstream(file) << text;
  return run_program({"promtool", "check", "config", file}, "");
}

TEST(Scrape, PromtoolAcceptsBothJobs) {
  for (const char* path : {kPlain, kSecured}) {
    TempDir dir;
    std::ofstream(dir.path() + "/stepgate-password") << "x\n";
    run_program({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-subj", "/CN=x", "-keyout", "/dev/null", "-out", dir.path() + "/stepgate-ca.pem"},
                "");
    const Outcome outcome = check(moved(read_file(path), dir), dir);
    ASSERT_NE(outcome.status, 127) << "promtool is not installed (Debian package prometheus)";
    EXPECT_EQ(outcome.status, 0) << path << ": " << outcome.output;
  }
}

TEST(Scrape, PromtoolWouldSeeAFault) {
  TempDir dir;
  const std::string wrong =
      std::regex_replace(read_file(kSecured), std::regex("basic_auth"), "basic_authentication");
  EXPECT_NE(check(moved(wrong, dir), dir).status, 0);
}

// What a reader copies is what was tested.
TEST(Scrape, TheDocumentsShowTheseFiles) {
  const auto body = [](const std::string& path) {
    const std::string text = configuration(path);
    return text.substr(text.find("scrape_configs:"));
  };
  EXPECT_NE(read_file("README.md").find("```yaml\n" + body(kPlain) + "```"), std::string::npos)
      << body(kPlain);
  EXPECT_NE(read_file("docs/metrics.md").find("```yaml\n" + body(kSecured) + "```"), std::string::npos)
      << body(kSecured);
}

TEST(Chart, PortAndPathAreTheProducts) {
  EXPECT_NE(read_file("charts/stepgate/values.yaml")
                .find("  port: " + std::to_string(ExpositionOptions{}.first_port) + "\n"),
            std::string::npos);
  EXPECT_NE(
      read_file("charts/stepgate/templates/podmonitor.yaml").find("path: " + std::string(kPagePath) + "\n"),
      std::string::npos);
}

TEST(Chart, SetsVariablesThatExist) {
  std::set<std::string> known, set;
  for (const gate::ConfigEntry& entry : gate::config_table()) known.insert(entry.name);
  const std::string text = read_file("charts/stepgate/templates/environment.yaml");
  const std::regex name("\n +(STEPGATE_[A-Z_]+):");
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) set.insert((*it)[1]);
  EXPECT_EQ(set.size(), 5u);
  for (const std::string& variable : set) EXPECT_TRUE(known.contains(variable)) << variable;
}

}  // namespace
}  // namespace stepgate::metrics::test

// The catalogue: sane in itself, equal to its document, and what the page shows.
#include "metrics/catalogue.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "tests/metrics/fake_job.h"
#include "tests/metrics/publisher_fixture.h"

namespace stepgate::metrics::test {
namespace {

const char* since_name(Since since) {
  return since == Since::kObserve ? "observe" : "enforce";
}

std::string labels_cell(const std::string& labels) {
  std::string cell;
  std::istringstream in(labels);
  for (std::string label; std::getline(in, label, ',');) cell += (cell.empty() ? "`" : ", `") + label + "`";
  return cell;
}

// The rows that docs/metrics.md must have.
std::string documented_rows() {
  std::string rows;
  for (const FamilyInfo& f : catalogue()) {
    const std::string labels = labels_cell(f.labels);
    rows += std::string("| `") + f.name + "` | " + family_type_name(f.type) + " | " + labels +
            (labels.empty() ? "| " : " | ") + since_name(f.since) + " | " + f.help + " |\n";
  }
  return rows;
}

std::string rows_of(const std::string& document) {
  std::string rows;
  std::istringstream in(document);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("| `stepgate_", 0) == 0) rows += line + "\n";
  }
  return rows;
}

TEST(Catalogue, TheDocumentHasTheSameRows) {
  EXPECT_EQ(rows_of(read_file("docs/metrics.md")), documented_rows());
}

TEST(Catalogue, NamesFollowTheConventions) {
  std::set<std::string> names;
  for (const FamilyInfo& f : catalogue()) {
    const std::string name = f.name;
    EXPECT_TRUE(names.insert(name).second) << name << " twice";
    EXPECT_EQ(name.rfind("stepgate_", 0), 0u) << name;
    EXPECT_EQ(name.ends_with("_total"), f.type == FamilyType::kCounter) << name;
    EXPECT_EQ(histogram_bounds(f.id).empty(), f.type != FamilyType::kHistogram) << name;
    EXPECT_STREQ(family_info(f.id).name, f.name);
    EXPECT_EQ(std::string(f.labels).find("rank") != std::string::npos,
              name.rfind("stepgate_job_rank_", 0) == 0)
        << name << ": the target carries the rank, but where rank 0 speaks of all";
  }
}

// Fills every family and compares types and labels on the page with the table.
TEST(Catalogue, ThePageShowsEveryFamilyWithItsTypeAndLabels) {
  FakeSource source;
  source.name_range(0, "b");
  RangeRecord first = range(1, 0, ScanPhase::kReduced, 10);
  first.scale = 1024;
  source.put(first);
  Observation shown;
  shown.name = "x";
  shown.sequence = 1;
  source.show(shown);
  shown.phase = ObservedPhase::kUpdate;
  source.show(shown);
  Identity who = source.identity();
  who.torchelastic_restarts = 1;
  source.set_identity(who);
  FakeJob job(2);
  job.rank(0).seen = true;
  job.rank(0).loss_scale = 1;
  Publisher publisher(quiet_options());
  publisher.add_source(&source);
  publisher.add_job_source(&job);
  publisher.poll_once();  // observe first: its norm is absent later
  source.set_enforcing(true);
  StepRecord r = applied(1);
  r.scan_seconds = r.agreement_seconds = 0.1;
  source.push(r);
  const std::string page = page_of(publisher);
  for (const FamilyInfo& f : catalogue()) {
    const std::string type = std::string("# TYPE ") + f.name + " " + family_type_name(f.type) + "\n";
    EXPECT_NE(page.find(type), std::string::npos) << f.name << " is not on the page as " << type;
  }
  for (const auto& [series, value] : samples(page)) {
    const std::string name = series.substr(0, series.find('{'));
    for (const FamilyInfo& f : catalogue()) {
      if (name != f.name) continue;
      std::set<std::string> want, have;
      std::istringstream in(f.labels);
      for (std::string label; std::getline(in, label, ',');) want.insert(label);
      std::istringstream inside(series.substr(std::min(series.size(), name.size() + 1)));
      for (std::string label; std::getline(inside, label, ',');) {
        if (label.find('=') != std::string::npos) have.insert(label.substr(0, label.find('=')));
      }
      EXPECT_EQ(have, want) << series;
    }
  }
}

TEST(Catalogue, BoundsAreThreeADecadeAndGrow) {
  for (const FamilyId id :
       {FamilyId::kGradientNormHist, FamilyId::kScanDuration, FamilyId::kAgreementDuration}) {
    const std::vector<double> bounds = histogram_bounds(id);
    ASSERT_EQ(bounds.size(), 19u);
    for (std::size_t i = 3; i < bounds.size(); ++i) EXPECT_NEAR(bounds[i] / bounds[i - 3], 10, 1e-9);
  }
  EXPECT_EQ(histogram_bounds(FamilyId::kGradientNormHist).front(), 1e-3);
  EXPECT_EQ(histogram_bounds(FamilyId::kGradientNormHist).back(), 1e3);
  EXPECT_EQ(histogram_bounds(FamilyId::kScanDuration).front(), 1e-5);
  EXPECT_EQ(histogram_bounds(FamilyId::kScanDuration).back(), 10);
}

}  // namespace
}  // namespace stepgate::metrics::test

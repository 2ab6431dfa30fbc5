#include "tests/repo/skips.h"

#include <algorithm>
#include <regex>

namespace stepgate::repo {
namespace {

// What a line begins: a case, a class, its SetUp, or another function. "" leaves all as it is.
struct Scope {
  std::string fixture;  // the class whose body the line may be in
  bool in_set_up = false;
  std::string suite, name;  // of the case
};

void enter(const std::string& line, Scope* scope) {
  static const std::regex test("^TEST(?:_F|_P)?\\((\\w+), (\\w+)\\)");
  static const std::regex fixture("^(?:class|struct) (\\w+)\\b.*\\{$");
  std::smatch found;
  if (std::regex_search(line, found, test)) {
    *scope = {"", false, found[1], found[2]};
  } else if (std::regex_search(line, found, fixture)) {
    *scope = {found[1], false, "", ""};
  } else if (line.find("void SetUp()") != std::string::npos) {
    scope->in_set_up = true;
  } else if (line.starts_with("  }")) {
    scope->in_set_up = false;
  } else if (line.starts_with("}")) {
    *scope = {};
  }
}

bool belongs(const std::string& test, const SkipSite& site) {
  const std::size_t first = test.find('.'), second = test.find('.', first + 1);
  if (first == std::string::npos || second == std::string::npos) return false;
  std::string suite = test.substr(first + 1, second - first - 1), name = test.substr(second + 1);
  suite = suite.substr(suite.rfind('/') + 1);
  name = name.substr(0, name.find('/'));
  return suite == site.suite && (site.name.empty() || name == site.name);
}

bool covered(const std::string& test, const Listed& listed) {
  return std::any_of(listed.begin(), listed.end(), [&](const auto& line) {
    return std::regex_match(test, std::regex(line.first, std::regex::extended));
  });
}

// The same with any program in front.
bool covered_in_any_program(const SkipSite& site, const Listed& listed) {
  const std::string rest = site.suite + "." + (site.name.empty() ? "AnyCase" : site.name);
  return std::any_of(listed.begin(), listed.end(), [&](const auto& line) {
    const std::size_t dot = line.first.find("\\.");
    return dot != std::string::npos && covered("any." + rest, {{"any" + line.first.substr(dot), ""}});
  });
}

}  // namespace

std::vector<SkipSite> skip_sites(const SourceFile& file) {
  static const std::string call = std::string("GTEST_") + "SKIP(";
  std::vector<SkipSite> sites;
  Scope scope;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    enter(file.lines[i], &scope);
    if (file.lines[i].substr(0, file.lines[i].find("//")).find(call) == std::string::npos) continue;
    const std::string suite = !scope.suite.empty() ? scope.suite : scope.in_set_up ? scope.fixture : "";
    sites.push_back({file.path + ":" + std::to_string(i + 1), suite, scope.name});
  }
  return sites;
}

std::vector<std::string> check_skips_are_listed(const std::vector<SkipSite>& sites,
                                                const std::set<std::string>& tests, const Listed& listed) {
  std::vector<std::string> problems;
  for (const SkipSite& site : sites) {
    if (site.suite.empty()) {
      problems.push_back(site.where + ": a skip in neither a test nor a fixture's SetUp: whose is it?");
      continue;
    }
    bool built = false;
    for (const std::string& test : tests) {
      if (!belongs(test, site)) continue;
      built = true;
      if (!covered(test, listed))
        problems.push_back(site.where + ": no line of tests/skips.txt covers " + test);
    }
    if (!built && !covered_in_any_program(site, listed)) {
      problems.push_back(site.where + ": no line of tests/skips.txt covers " + site.suite + "." + site.name);
    }
  }
  return problems;
}

}  // namespace stepgate::repo

#include "tests/repo/texts.h"

#include <algorithm>
#include <regex>
#include <set>
#include <stdexcept>

namespace stepgate::repo {
namespace {

// Written so that none of them matches its own line.
const std::vector<std::pair<std::regex, const char*>>& forbidden() {
  static const std::vector<std::pair<std::regex, const char*>> table = {
      {std::regex("(^|[^A-Za-z0-9_.])/(wor[k]|far[m])/"), "a path of one machine"},
      {std::regex("/roo[t]/|/hom[e]/[a-z]"), "a path of one machine"},
      {std::regex("deb[.]debian[.]org|files[.]pythonhosted|pypi[.]org|registry[.]npmjs"), "a package host"},
      {std::regex("[.][.]/share[d]\\b"), "a path outside the repository"},
  };
  return table;
}

std::string trim(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::string at_line(const SourceFile& file, std::size_t index) {
  return file.path + ":" + std::to_string(index + 1) + ": ";
}

}  // namespace

std::vector<std::string> check_words(const SourceFile& file) {
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    for (const auto& [pattern, what] : forbidden()) {
      if (std::regex_search(file.lines[i], pattern)) problems.push_back(at_line(file, i) + what);
    }
  }
  return problems;
}

std::vector<std::string> check_header_opening(const SourceFile& file) {
  const auto says = [&](const char* text) {
    return std::any_of(file.lines.begin(), file.lines.end(),
                       [&](const std::string& line) { return line.starts_with(text); });
  };
  std::vector<std::string> problems;
  // Highway's *-inl.h are included once per instruction set: no #pragma once there, by design.
  if (!says("#pragma once") && !says("#ifndef STEPGATE_") && !file.path.ends_with("-inl.h")) {
    problems.push_back(file.path + ": has neither #pragma once nor a guard STEPGATE_...");
  }
  const bool comment =
      !file.lines.empty() && (file.lines[0].starts_with("//") || file.lines[0].starts_with("/*"));
  if (!comment) problems.push_back(file.path + ": does not open with a comment that says what it is for");
  return problems;
}

std::vector<std::string> check_skip_reasons(const SourceFile& file) {
  static const std::string call = std::string("GTEST_") + "SKIP(";
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::size_t at = file.lines[i].find(call);
    if (at == std::string::npos) continue;
    std::string statement = file.lines[i].substr(at);
    for (std::size_t j = i + 1; statement.find(';') == std::string::npos && j < file.lines.size(); ++j) {
      statement += trim(file.lines[j]);
    }
    const bool reason = std::regex_search(statement, std::regex("\\)\\s*<<\\s*([A-Za-z_]|\"[^\"]{8,})"));
    if (!reason) problems.push_back(at_line(file, i) + "a skip without a reason");
  }
  return problems;
}

std::vector<std::string> check_environment(const SourceFile& file) {
  static const std::regex call("(^|[^a-z_])(secure_)?gete[n]v\\(");
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string code = file.lines[i].substr(0, file.lines[i].find("//"));
    if (std::regex_search(code, call)) problems.push_back(at_line(file, i) + "reads the environment");
  }
  return problems;
}

Listed parse_listed(const std::vector<std::string>& lines) {
  Listed listed;
  for (const std::string& line : lines) {
    if (trim(line).empty() || line.starts_with("#")) continue;
    const std::size_t bar = line.find(" | ");
    if (bar == std::string::npos || trim(line.substr(bar + 3)).empty()) {
      throw std::runtime_error("'" + line + "': the form is NAME | REASON");
    }
    listed.emplace_back(trim(line.substr(0, bar)), trim(line.substr(bar + 3)));
  }
  return listed;
}

std::vector<std::string> check_lengths(const std::vector<SourceFile>& files, const Listed& listed) {
  std::set<std::string> excused;
  for (const auto& [path, reason] : listed) excused.insert(path);
  std::vector<std::string> problems;
  for (const SourceFile& file : files) {
    if (file.lines.size() <= kMaxLines || excused.erase(file.path) != 0) continue;
    problems.push_back(file.path + ": " + std::to_string(file.lines.size()) + " lines, at most " +
                       std::to_string(kMaxLines));
  }
  for (const std::string& path : excused)
    problems.push_back("listed, but not too long or not there: " + path);
  return problems;
}

}  // namespace stepgate::repo

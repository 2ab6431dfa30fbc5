#include "tests/gpu/results.h"

#include <algorithm>
#include <cstdlib>

namespace stepgate::gpu {
namespace {

std::string one_field(std::string text) {
  std::replace(text.begin(), text.end(), '\t', ' ');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

}  // namespace

Results::Results(const std::string& path, std::string part)
    : file_(std::fopen(path.c_str(), "a")), part_(std::move(part)) {
  if (file_ == nullptr) {
    std::fprintf(stderr, "results: cannot write %s\n", path.c_str());
    std::exit(2);
  }
}

Results::~Results() {
  std::fclose(file_);
}

void Results::line(const char* state, const std::string& name, const std::string& value,
                   const std::string& goal, const std::string& note) {
  std::fprintf(file_, "%s\t%s\t%s\t%s\t%s\t%s\n", part_.c_str(), one_field(name).c_str(), state,
               value.c_str(), goal.c_str(), one_field(note).c_str());
  std::fflush(file_);
}

void Results::check(const std::string& name, const std::string& problem) {
  failed_ = failed_ || !problem.empty();
  line(problem.empty() ? "pass" : "fail", name, "", "", problem);
}

void Results::at_most(const std::string& name, double value, double goal, const std::string& note) {
  const char* state = !speeds_count_ ? "ran" : value <= goal ? "pass" : "miss";
  line(state, name, number(value), number(goal), note);
}

void Results::figure(const std::string& name, double value, const std::string& unit) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  line("figure", name, text, "", unit);
}

void Results::skipped(const std::string& name, const std::string& why) {
  line("skip", name, "", "", why);
}

}  // namespace stepgate::gpu

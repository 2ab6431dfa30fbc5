#include "tests/plugin/shim/loaders/loader_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace stepgate::test {

std::string loader_library(const std::string& name) {
  return LOADER_TEST_FOLDER "/loader_" + name + ".so";
}

std::string host_nccl_folder() {
  return STEPGATE_TEST_LIB "/hostnccl";
}

std::string counting_nccl_folder() {
  return LOADER_TEST_FOLDER "/counting";
}

Variables loader_variables(const std::string& folder, Variables more) {
  const std::string runtime = LOADER_TEST_RUNTIME, shim = STEPGATE_TEST_LIB "/libstepgate.so";
  // Leaks of python itself, and of a process that is not asked to clean up, are nobody's concern here.
  const char* options = std::getenv("ASAN_OPTIONS");
  more.emplace("ASAN_OPTIONS", std::string(options != nullptr ? options : "") + ":detect_leaks=0");
  more.emplace("LD_PRELOAD", runtime.empty() ? shim : runtime + " " + shim);
  more.emplace("LD_LIBRARY_PATH", folder);
  more.emplace("STEPGATE_MODE", "observe");
  more.emplace("STEPGATE_METRICS_PORT", "0");
  more.emplace("STEPGATE_HOSTNCCL_TIMEOUT", "40");
  return more;
}

Outcome run_loader(const std::vector<std::string>& words, const Variables& variables) {
  std::vector<std::string> all = {words[0] == "linked" ? LOADER_TEST_LINKED : LOADER_TEST_PROGRAM};
  all.insert(all.end(), words.begin(), words.end());
  return run(all, variables);
}

Outcome run_python(const std::string& script, const Variables& variables) {
  return run({"python3", "-c", script}, variables);
}

void expect_line(const Outcome& o, const std::string& line) {
  const std::vector<std::string> lines = lines_of(o.out);
  EXPECT_NE(std::find(lines.begin(), lines.end(), line), lines.end()) << "no line '" << line << "' in:\n"
                                                                      << o.out << o.err;
}

std::size_t times_said(const Outcome& o, const std::string& text) {
  std::size_t n = 0;
  for (std::size_t at = o.err.find(text); at != std::string::npos; at = o.err.find(text, at + 1)) ++n;
  return n;
}

}  // namespace stepgate::test

#include "tests/integration/charlm/charlm_runs.h"

namespace stepgate::test {

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<std::string> small_model() {
  return {"--context", "6", "--hidden", "24", "--batch", "8"};
}

CharlmRun run_charlm(const CharlmSetup& setup) {
  const TemporaryFolder folder;
  const std::string file = folder.file("charlm");
  const std::string processes = std::to_string(setup.threads ? 1 : setup.ranks);
  std::vector<std::string> words = {command_path(), "run", "-n", processes, "--nccl", "host"};
  words = words + setup.launcher_options;
  if (setup.plugin) {
    words = words + std::vector<std::string>{"--mode", "enforce"};
  } else {
    words.push_back("--no-plugin");
  }
  words = words + std::vector<std::string>{"--", setup.program, "--json", file};
  if (setup.threads) words = words + std::vector<std::string>{"--threads", std::to_string(setup.ranks)};
  CharlmRun result;
  result.outcome = run(words + setup.options, setup.variables, std::chrono::seconds(280));
  if (result.outcome.status == 0) result.run = charlm_report::read_run(file, setup.ranks);
  return result;
}

}  // namespace stepgate::test

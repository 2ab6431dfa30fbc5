#include "tests/repo/ctest_names.h"

#include "tests/repo/source_tree.h"

namespace stepgate::repo {

std::set<std::string> ctest_names() {
  std::set<std::string> names;
  for (const std::string& line :
       split_lines(run_command("'" STEPGATE_CTEST "' -N --test-dir '" STEPGATE_BUILD_DIR "'"))) {
    const std::size_t number = line.find('#'), colon = line.find(": ", number);
    if (line.find("Test") == std::string::npos || number == std::string::npos || colon == std::string::npos)
      continue;
    names.insert(line.substr(colon + 2));
  }
  return names;
}

}  // namespace stepgate::repo

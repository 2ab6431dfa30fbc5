// Prints the configuration table for README.md: the test that compares them says when it is needed.
#include <cstdio>

#include "tests/repo/config_table_markdown.h"

int main() {
  for (const std::string& line : stepgate::repo::config_table_markdown()) std::printf("%s\n", line.c_str());
  return 0;
}

#include "tests/repo/config_table_markdown.h"

namespace stepgate::repo {
namespace {

// A bar would end the cell.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string code_or_nothing(const std::string& text) {
  return text.empty() ? "" : "`" + cell(text) + "`";
}

std::string row(const gate::ConfigEntry& entry) {
  return "| `" + std::string(entry.name) + "` | " + cell(entry.type) + " | " +
         code_or_nothing(entry.fallback) + " | " + cell(entry.allowed) + " | " + cell(entry.text) + " |";
}

}  // namespace

std::vector<std::string> config_table_markdown() {
  std::vector<std::string> lines = {"| variable | type | default | allowed | meaning |",
                                    "|---|---|---|---|---|"};
  for (const gate::ConfigEntry& entry : gate::config_table()) lines.push_back(row(entry));
  return lines;
}

}  // namespace stepgate::repo

// summary RESULTS.tsv JSON NAME=VALUE...: the table of a run, and the same as JSON. Exit status 1 when a
// check failed, or when there is none; a goal that was missed is no failure.
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Line {
  std::string part, name, state, value, goal, note;
};

Line parsed(const std::string& text) {
  std::istringstream fields(text);
  Line l;
  for (std::string* field : {&l.part, &l.name, &l.state, &l.value, &l.goal, &l.note})
    std::getline(fields, *field, '\t');
  return l;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out + "\"";
}

bool is_number(const std::string& text) {
  std::istringstream stream(text);
  double x = 0;
  return !text.empty() && (stream >> x) && stream.eof() &&
         text.find_first_not_of("0123456789.e+-") == std::string::npos;
}

std::string number_or_null(const std::string& text) {
  return is_number(text) ? text : "null";
}

void write_json(std::FILE* file, const std::vector<Line>& lines, const std::vector<std::string>& facts) {
  std::fprintf(file, "{\n");
  for (const std::string& fact : facts) {
    const std::size_t equals = fact.find('=');
    std::fprintf(file, "  %s: %s,\n", quoted(fact.substr(0, equals)).c_str(),
                 quoted(fact.substr(equals + 1)).c_str());
  }
  std::fprintf(file, "  \"lines\": [");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& l = lines[i];
    std::fprintf(
        file,
        "%s\n    {\"part\": %s, \"name\": %s, \"state\": %s, \"value\": %s, \"goal\": %s, \"note\": %s}",
        i == 0 ? "" : ",", quoted(l.part).c_str(), quoted(l.name).c_str(), quoted(l.state).c_str(),
        number_or_null(l.value).c_str(), number_or_null(l.goal).c_str(), quoted(l.note).c_str());
  }
  std::fprintf(file, "\n  ]\n}\n");
}

void print_line(const Line& l) {
  const std::string value = l.goal.empty() ? l.value : l.value + " (goal " + l.goal + ")";
  std::printf("  %-6s %-76s %-20s %s\n", l.state.c_str(), l.name.c_str(), value.c_str(), l.note.c_str());
}

// Checks that held are counted, not listed: the table is for what has a figure or went wrong.
int print_table(const std::vector<Line>& lines) {
  std::map<std::string, int> count;
  std::map<std::string, int> passed_checks;
  std::string part;
  for (const Line& l : lines) {
    ++count[l.state];
    const bool plain = l.state == "pass" && l.goal.empty();
    if (plain) ++passed_checks[l.part];
    if (plain) continue;
    if (l.part != part) std::printf("%s\n", l.part.c_str());
    part = l.part;
    print_line(l);
  }
  for (const auto& [name, n] : passed_checks) std::printf("%s: %d checks passed\n", name.c_str(), n);
  std::printf("%d passed, %d failed, %d goals missed, %d skipped, %d figures\n", count["pass"], count["fail"],
              count["miss"], count["skip"], count["figure"] + count["ran"]);
  return count["fail"] != 0 || count["pass"] == 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: summary RESULTS.tsv JSON NAME=VALUE...\n");
    return 2;
  }
  std::vector<Line> lines;
  std::ifstream file(argv[1]);
  for (std::string text; std::getline(file, text);) lines.push_back(parsed(text));
  std::FILE* json = std::fopen(argv[2], "w");
  if (json == nullptr) {
    std::fprintf(stderr, "summary: cannot write %s\n", argv[2]);
    return 2;
  }
  write_json(json, lines, std::vector<std::string>(argv + 3, argv + argc));
  if (std::fclose(json) != 0) return 2;
  return print_table(lines);
}

#include "integration/command/state/state.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "collectives/core/decimal.h"
#include "integration/command/arguments.h"
#include "integration/command/shell_quoting.h"
#include "integration/command/streams.h"
#include "plugin/core/state_blob.h"

namespace stepgate::command {
namespace {

using nlohmann::ordered_json;

constexpr const char* kHelp =
    "usage: stepgate state show [--json] FILE\n"
    "\n"
    "Prints what stepgate_state_save() wrote: rule and parameters, the scale, the trackers, the counters.\n"
    "A file that is truncated, damaged, foreign or of another version is refused. Exit status: 0 shown,\n"
    "1 refused or not readable, 2 a wrong command line.\n"
    "\n"
    "  --json  the same for programs\n";

// Nothing that stepgate_state_save() writes is nearly as long.
constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::string_view kMagic = "STEPGATE";

struct Request {
  bool help = false;
  bool as_json = false;
  std::string file;
};

Request read_request(const std::vector<std::string_view>& words) {
  Request request;
  Arguments arguments(words);
  if (arguments.done()) throw UsageError("what follows state is missing; allowed: show, --help");
  bool first = true;
  while (!arguments.done()) {
    const bool is_option = arguments.at_option();
    const std::string_view word = arguments.take();
    if (is_option && (word == "--help" || word == "-h")) {
      request.help = true;
      return request;
    }
    if (first && word != "show") bad_value("what follows state", word, "show, --help");
    if (is_option && word == "--json") {
      arguments.no_value();
      request.as_json = true;
    } else if (is_option) {
      bad_value("the option", word, "--json, --help");
    } else if (!first && !request.file.empty()) {
      throw UsageError("one file only; '" + std::string(word) + "' is a second one");
    } else if (!first) {
      request.file = word;
    }
    first = false;
  }
  if (request.file.empty()) throw UsageError("the file is missing: stepgate state show FILE");
  return request;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(kMostBytes, '\0');
  // A folder can be opened, but not read.
  if (!file || (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) && !file.eof())) {
    throw std::runtime_error("cannot read " + path + ": " + std::strerror(errno));
  }
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

// The version behind the magic of what is ours; 0 where there is none.
std::uint32_t version_in(const std::string& bytes) {
  std::uint32_t version = 0;
  if (bytes.size() >= 12 && bytes.starts_with("STEPGATE")) {
    std::memcpy(&version, bytes.data() + 8, sizeof version);
  }
  return version;
}

// A rule's own parameters alone: a number that nothing reads would only mislead.
ordered_json parameters(const ScalerParams& p) {
  ordered_json all = {{"initial_scale", p.initial_scale}};
  if (rule_is_dynamic(p.rule)) all["growth"] = p.growth;
  if (rule_has_backoff(p.rule)) all["backoff"] = p.backoff;
  if (rule_is_dynamic(p.rule)) all["interval"] = p.interval;
  if (rule_has_hysteresis(p.rule)) all["hysteresis"] = p.hysteresis;
  if (rule_has_minimum(p.rule)) all["minimum"] = p.minimum;
  if (rule_has_maximum(p.rule)) all["maximum"] = p.maximum;
  return all;
}

ordered_json document(const gate::SavedState& s, std::size_t bytes) {
  return {{"version", gate::kStateVersion},
          {"bytes", bytes},
          {"rule", scaler_rule_name(s.params.rule)},
          {"parameters", parameters(s.params)},
          {"scale", s.scaler.scale},
          {"trackers",
           {{"growth_tracker", s.scaler.growth_tracker},
            {"hysteresis_left", s.scaler.hysteresis_left},
            {"iteration", s.scaler.iteration},
            {"last_overflow", s.scaler.last_overflow}}},
          {"counters",
           {{"step", s.step},
            {"applied", s.applied},
            {"skipped", s.skipped},
            {"generation", s.generation},
            {"last_decided", s.last_decided},
            {"last_confirmed", s.last_confirmed}}}};
}

void add_row(std::string* text, std::string name, const ordered_json& value) {
  std::replace(name.begin(), name.end(), '_', ' ');
  name.resize(17, ' ');
  std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
  if (value.is_number_float()) shown = shortest_decimal(value.get<double>());
  *text += "  " + name + shown + "\n";
}

std::string table(const ordered_json& all, const std::string& file) {
  std::string text = "StepGate state, version " + all.at("version").dump() + ", in " + file + "\n";
  add_row(&text, "rule", all.at("rule"));
  for (const auto& [name, value] : all.at("parameters").items()) add_row(&text, name, value);
  add_row(&text, "scale", all.at("scale"));
  for (const char* group : {"trackers", "counters"}) {
    for (const auto& [name, value] : all.at(group).items()) add_row(&text, name, value);
  }
  return text;
}

// Where the magic word stands in a file of any size, piece by piece; none where it does not, or where the
// file is no plain one, which might never end.
std::optional<std::uintmax_t> place_of_magic(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string piece, part(kMostBytes, '\0');
  for (std::uintmax_t before = 0; file; before += piece.size()) {
    // The end of the last piece again: the word may lie across.
    const std::size_t kept = std::min(piece.size(), kMagic.size() - 1);
    piece.erase(0, piece.size() - kept);
    before -= kept;
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    piece.append(part, 0, static_cast<std::size_t>(file.gcount()));
    const std::size_t at = piece.find(kMagic);
    if (at != std::string::npos) return before + at;
  }
  return std::nullopt;
}

// A checkpoint holds more than the blob: where that begins, and how to cut it out.
std::string blob_within(const std::string& file) {
  const std::optional<std::uintmax_t> at = place_of_magic(file);
  std::error_code error;
  const std::size_t size = gate::state_blob_bytes();
  if (!at || *at == 0 || std::filesystem::file_size(file, error) - *at < size) return "";
  return "; one may begin at its byte " + std::to_string(*at) + ": tail -c +" + std::to_string(*at + 1) +
         " " + quoted(file) + " | head -c " + std::to_string(size) + " > state";
}

int refuse(const std::string& file, const std::string& bytes, std::string why) {
  why += blob_within(file);
  if (version_in(bytes) > gate::kStateVersion)
    why += "; a newer StepGate wrote it, whose own command shows it";
  std::fprintf(stderr, "stepgate state: %s: %s\n", file.c_str(), why.c_str());
  return 1;
}

}  // namespace

int state_main(const std::vector<std::string_view>& words) {
  const Request request = read_request(words);
  if (request.help) {
    print(kHelp);
    return 0;
  }
  const std::string bytes = read_file(request.file);
  gate::SavedState state;
  std::string why;
  if (!gate::read_state_blob(bytes.data(), bytes.size(), &state, &why)) {
    return refuse(request.file, bytes, why);
  }
  const ordered_json all = document(state, bytes.size());
  print((request.as_json ? all.dump(2) + "\n" : table(all, request.file)).c_str());
  return 0;
}

}  // namespace stepgate::command

#include "integration/examples/charlm/report.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "integration/examples/charlm/files.h"

namespace stepgate::charlm {
namespace {

std::string number(double x) {
  if (!std::isfinite(x)) return "null";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  return std::string(text, end);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + "\"";
}

const char* fault_name(Fault fault) {
  switch (fault) {
    case Fault::kInf: return "inf";
    case Fault::kNan: return "nan";
    case Fault::kUnderflow: break;
  }
  return "underflow";
}

std::string item(const StepRow& row) {
  return "{\"step\": " + std::to_string(row.step) +
         ", \"decision\": " + (row.skip ? "\"skip\"" : "\"apply\"") + ", \"reason\": " + quoted(row.reason) +
         ", \"scale\": " + number(row.scale) + ", \"norm\": " + (row.skip ? "null" : number(row.norm)) + "}";
}

std::string item(const OffenderRow& row) {
  return "{\"step\": " + std::to_string(row.step) + ", \"rank\": " + std::to_string(row.rank) +
         ", \"kind\": " + (row.nan ? "\"nan\"" : "\"inf\"") + ", \"parameter\": " + quoted(row.parameter) +
         "}";
}

std::string item(const Injection& injection) {
  return "{\"step\": " + std::to_string(injection.step) + ", \"rank\": " + std::to_string(injection.rank) +
         ", \"kind\": " + quoted(fault_name(injection.fault)) +
         ", \"parameter\": " + quoted(injection.parameter) + "}";
}

std::string item(double x) {
  return number(x);
}

template <typename T>
std::string list(const std::vector<T>& values) {
  std::string out = "[";
  for (const T& value : values) {
    if (out.size() > 1) out += ",\n ";
    out += item(value);
  }
  return out + "]";
}

}  // namespace

std::string checksum(const std::vector<float>& weights) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const float weight : weights) {
    const auto bits = std::bit_cast<std::uint32_t>(weight);
    for (int byte = 0; byte < 4; ++byte) {
      hash = (hash ^ ((bits >> (8 * byte)) & 0xffu)) * 0x100000001b3u;
    }
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

std::string to_json(const RankReport& report) {
  std::string out = "{\"rank\": " + std::to_string(report.rank);
  out += ", \"world\": " + std::to_string(report.world);
  out += std::string(", \"gated\": ") + (report.gated ? "true" : "false");
  out += std::string(", \"device\": ") + (report.cuda ? "\"cuda\"" : "\"host\"");
  out += ", \"first_step\": " + std::to_string(report.first_step);
  out += ",\n\"weights_checksum\": " + quoted(report.weights_checksum);
  out += ", \"unigram_entropy\": " + number(report.unigram_entropy);
  out += ", \"seconds\": " + number(report.seconds);
  out += ", \"metrics\": " + quoted(report.metrics_url);
  out += ",\n\"steps\": " + list(report.steps);
  out += ",\n\"offenders\": " + list(report.offenders);
  out += ",\n\"injections\": " + list(report.injections);
  out += ",\n\"loss\": " + list(report.losses);
  return out + "}\n";
}

void write_report(const std::string& path, const RankReport& report) {
  write_whole_file(path, to_json(report), "the report");
}

}  // namespace stepgate::charlm

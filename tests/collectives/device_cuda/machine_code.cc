#include "tests/collectives/device_cuda/machine_code.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>

namespace stepgate::test {
namespace {

std::string output_of(const std::string& command) {
  const auto close = [](std::FILE* f) { pclose(f); };
  const std::unique_ptr<std::FILE, decltype(close)> pipe(popen(command.c_str(), "r"), close);
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string text;
  char buffer[65536];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe.get())) != 0;)
    text.append(buffer, n);
  return text;
}

// What stands between two marks; empty where one is missing.
std::string between(const std::string& line, const std::string& before, const std::string& after) {
  const std::size_t from = line.find(before);
  if (from == std::string::npos) return "";
  const std::size_t begin = from + before.size();
  const std::size_t end = line.find(after, begin);
  return end == std::string::npos ? "" : line.substr(begin, end - begin);
}

// "sm_90" in a cubin's file name.
std::string architecture_in(const std::string& name) {
  const std::size_t at = name.find("sm_");
  return at == std::string::npos ? "" : name.substr(at, name.find('.', at) - at);
}

// Without predicate and operands: "@!P0 LDG.E.128 R4, ..." is LDG.E.128.
std::string first_word(const std::string& instruction) {
  std::istringstream words(instruction);
  std::string word;
  words >> word;
  if (!word.empty() && word[0] == '@') words >> word;
  return word;
}

// Without modifiers too: LDG.
std::string operation(const std::string& instruction) {
  const std::string word = first_word(instruction);
  return word.substr(0, word.find('.'));
}

bool is_alu(const std::string& op) {
  static const char* const kOps[] = {"LOP3",   "LOP",    "IADD3",   "IADD",  "VIADD", "PRMT",
                                     "SHF",    "SHL",    "SHR",     "LEA",   "ISETP", "SEL",
                                     "IMNMX",  "VIMNMX", "VIMNMX3", "IDP",   "POPC",  "FMNMX",
                                     "VHMNMX", "HMNMX2", "ISCADD",  "FSETP", "PLOP3"};
  for (const char* o : kOps) {
    if (op == o) return true;
  }
  return false;
}

LoopCost cost_of(const Listing& k, std::size_t from, std::size_t to, const LoopShape& shape) {
  LoopCost cost;
  const std::string width = "." + std::to_string(shape.width);
  for (std::size_t i = from; i <= to; ++i) {
    const std::string word = first_word(k.instructions[i]);
    const std::string op = word.substr(0, word.find('.'));
    if (op == "NOP") continue;
    ++cost.instructions;
    cost.alu += is_alu(op);
    const bool vector = word.find(width) != std::string::npos;
    const bool constant = word.find(".CONSTANT") != std::string::npos;
    cost.loads += op == "LDG" && vector && constant == shape.read_only;
    cost.stores += op == "STG" && vector;
    cost.stack += op == "STL" || op == "LDL";
  }
  return cost;
}

}  // namespace

std::map<std::string, std::map<std::string, KernelResources>> read_ptxas_log(const std::string& path) {
  std::ifstream log(path);
  if (!log) throw std::runtime_error("cannot read " + path);
  std::map<std::string, std::map<std::string, KernelResources>> all;
  KernelResources* current = nullptr;
  for (std::string line; std::getline(log, line);) {
    const std::string kernel = between(line, "Compiling entry function '", "'");
    if (!kernel.empty()) current = &all[between(line, "for '", "'")][kernel];
    if (current == nullptr) continue;
    const std::string stores = between(line, "stack frame, ", " bytes spill stores");
    const std::string loads = between(line, "spill stores, ", " bytes spill loads");
    if (!stores.empty()) current->spill_bytes += std::stoi(stores) + std::stoi(loads);
    const std::string registers = between(line, "Used ", " registers");
    if (!registers.empty()) current->registers = std::stoi(registers);
  }
  return all;
}

std::map<std::string, Listing> parse_disassembly(const std::string& text) {
  std::map<std::string, Listing> kernels;
  Listing* current = nullptr;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(".text.", 0) == 0) current = &kernels[line.substr(6, line.find(':') - 6)];
    if (current == nullptr) continue;
    if (line.rfind(".L_", 0) == 0)
      current->labels[line.substr(0, line.find(':'))] = current->instructions.size();
    const std::size_t address = line.find("/*");
    const std::size_t end = line.find(';');
    if (address == std::string::npos || end == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(' ', line.find("*/", address) + 2);
    if (begin < end) current->instructions.push_back(line.substr(begin, end - begin));
  }
  return kernels;
}

std::map<std::string, std::map<std::string, Listing>> disassemble(const std::string& fatbin,
                                                                  const std::string& cuobjdump,
                                                                  const std::string& nvdisasm) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("stepgate_cubins_" + std::to_string(getpid()));
  fs::create_directories(folder);
  output_of("cd '" + folder.string() + "' && '" + cuobjdump + "' -xelf all '" + fatbin + "' 2>&1");
  std::map<std::string, std::map<std::string, Listing>> all;
  for (const auto& file : fs::directory_iterator(folder)) {
    const std::string architecture = architecture_in(file.path().filename().string());
    all[architecture] =
        parse_disassembly(output_of("'" + nvdisasm + "' -c '" + file.path().string() + "' 2>&1"));
  }
  fs::remove_all(folder);
  return all;
}

LoopCost hot_loop(const Listing& k, const LoopShape& shape) {
  LoopCost best;
  for (std::size_t i = 0; i < k.instructions.size(); ++i) {
    if (operation(k.instructions[i]) != "BRA") continue;
    const auto label = k.labels.find(between(k.instructions[i] + ")", "`(", ")"));
    if (label == k.labels.end() || label->second > i) continue;
    const LoopCost cost = cost_of(k, label->second, i, shape);
    if (cost.loads != shape.loads || cost.stores != shape.stores) continue;
    if (best.instructions == 0 || cost.instructions < best.instructions) best = cost;
  }
  return best;
}

}  // namespace stepgate::test

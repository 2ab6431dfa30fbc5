#include "integration/examples/charlm/checkpoint.h"

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include "integration/examples/charlm/files.h"

namespace stepgate::charlm {
namespace {

constexpr std::uint64_t kMagic = 0x504b434c52414843;           // "CHARLCKP"
constexpr std::uint64_t kMagicOfFormat1 = 0x31304d4c52414843;  // "CHARLM01"
constexpr std::uint64_t kFormat = 2;
// Magic, format and checksum.
constexpr std::size_t kSmallest = 3 * sizeof(std::uint64_t);

// FNV-1a: every step is one to one, so a change of one byte always changes the sum.
std::uint64_t sum_of(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

std::string hexadecimal(std::uint64_t x) {
  char text[19];
  std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(x));
  return text;
}

template <typename T>
void put(std::string& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
void put(std::string& out, const std::vector<T>& list) {
  put(out, std::uint64_t{list.size()});
  out.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T));
}

template <typename T>
void get(std::string_view& in, T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (in.size() < sizeof value) throw std::runtime_error("it is cut short");
  std::memcpy(&value, in.data(), sizeof value);
  in.remove_prefix(sizeof value);
}

template <typename T>
void get(std::string_view& in, std::vector<T>& list) {
  std::uint64_t size = 0;
  get(in, size);
  if (size > in.size() / sizeof(T)) {
    throw std::runtime_error("a list in it has length " + std::to_string(size) + "; allowed: at most " +
                             std::to_string(in.size() / sizeof(T)));
  }
  list.resize(size);
  if (size > 0) std::memcpy(list.data(), in.data(), size * sizeof(T));
  in.remove_prefix(size * sizeof(T));
}

// Magic, format and checksum are right; returns what lies between them.
std::string_view checked_body(std::string_view file) {
  std::uint64_t magic = 0, format = 0, sum = 0;
  std::string_view in = file;
  if (in.size() >= sizeof magic) get(in, magic);
  if (magic == kMagicOfFormat1) throw std::runtime_error("its format is 1; allowed: 2");
  if (magic != kMagic) throw std::runtime_error("it is no checkpoint of charlm");
  if (file.size() < kSmallest) throw std::runtime_error("it is cut short");
  get(in, format);
  if (format != kFormat) {
    throw std::runtime_error("its format is " + std::to_string(format) + "; allowed: 2");
  }
  std::string_view tail = file.substr(file.size() - sizeof sum);
  get(tail, sum);
  const std::uint64_t actual = sum_of(file.substr(0, file.size() - sizeof sum));
  if (sum != actual) {
    throw std::runtime_error("its checksum is " + hexadecimal(actual) + "; allowed: " + hexadecimal(sum) +
                             ", as it was written: the file is damaged or cut short");
  }
  in.remove_suffix(sizeof sum);
  return in;
}

Checkpoint get_all(std::string_view in) {
  Checkpoint c;
  get(in, c.header);
  get(in, c.weights);
  get(in, c.adam.updates);
  get(in, c.adam.masters);
  get(in, c.adam.first_moments);
  get(in, c.adam.second_moments);
  get(in, c.judge);
  if (!in.empty())
    throw std::runtime_error("there are " + std::to_string(in.size()) + " bytes too many in it");
  return c;
}

const char* strategy_name(std::uint64_t zero1) {
  return zero1 != 0 ? "zero1" : "ddp";
}

[[noreturn]] void refuse_for(const std::string& name, const std::string& value, const std::string& allowed,
                             const std::string& path) {
  throw std::invalid_argument(name + " is " + value + "; allowed: " + allowed + ", for the checkpoint " +
                              path);
}

std::string differing(const char* name, std::uint64_t first, std::size_t rank, std::uint64_t value) {
  return std::string(name) + " is " + std::to_string(first) + " in the file of rank 0, but " +
         std::to_string(value) + " in the file of rank " + std::to_string(rank);
}

}  // namespace

void write_checkpoint(const std::string& path, const Checkpoint& c) {
  std::string out;
  put(out, kMagic);
  put(out, kFormat);
  put(out, c.header);
  put(out, c.weights);
  put(out, c.adam.updates);
  put(out, c.adam.masters);
  put(out, c.adam.first_moments);
  put(out, c.adam.second_moments);
  put(out, c.judge);
  put(out, sum_of(out));
  write_whole_file(path, out, "the checkpoint");
}

Checkpoint read_checkpoint(const std::string& path) {
  const std::string file = read_whole_file(path, "the checkpoint");
  try {
    return get_all(checked_body(file));
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("the checkpoint " + path + ": " + error.what());
  }
}

void check_header(const CheckpointHeader& header, const CheckpointHeader& wanted, std::uint64_t last_step,
                  const std::string& path) {
  const auto text = [](std::uint64_t x) { return std::to_string(x); };
  if (header.world != wanted.world) {
    refuse_for("the number of ranks", text(wanted.world), text(header.world), path);
  }
  if (header.rank != wanted.rank) {
    throw std::invalid_argument("the rank in the checkpoint " + path + " is " + text(header.rank) +
                                "; allowed: " + text(wanted.rank));
  }
  if (header.zero1 != wanted.zero1) {
    refuse_for("--strategy", strategy_name(wanted.zero1), strategy_name(header.zero1), path);
  }
  if (header.seed != wanted.seed) refuse_for("--seed", text(wanted.seed), text(header.seed), path);
  if (last_step <= header.step) {
    refuse_for("--steps", text(last_step), "more than the " + text(header.step) + " that are done", path);
  }
}

std::string mixture(const std::vector<CheckpointHeader>& by_rank) {
  const CheckpointHeader& first = by_rank.front();
  for (std::size_t rank = 1; rank < by_rank.size(); ++rank) {
    const CheckpointHeader& other = by_rank[rank];
    if (other.step != first.step) return differing("the step", first.step, rank, other.step);
    if (other.seed != first.seed) return differing("the seed", first.seed, rank, other.seed);
    if (other.gated != first.gated) return differing("gated", first.gated, rank, other.gated);
    if (other.run != first.run) return differing("the run that wrote it", first.run, rank, other.run);
  }
  return "";
}

std::string path_of_rank(const std::string& path, unsigned rank) {
  return path + ".rank" + std::to_string(rank);
}

}  // namespace stepgate::charlm

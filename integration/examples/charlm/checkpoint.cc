#include "integration/examples/charlm/checkpoint.h"

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <type_traits>

namespace stepgate::charlm {
namespace {

constexpr std::uint64_t kMagic = 0x31304d4c52414843;  // "CHARLM01"
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 32;

template <typename T>
void put(std::ostream& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
void put(std::ostream& out, const std::vector<T>& list) {
  put(out, std::uint64_t{list.size()});
  out.write(reinterpret_cast<const char*>(list.data()),
            static_cast<std::streamsize>(list.size() * sizeof(T)));
}

template <typename T>
void get(std::istream& in, T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  in.read(reinterpret_cast<char*>(&value), sizeof value);
}

template <typename T>
void get(std::istream& in, std::vector<T>& list) {
  std::uint64_t size = 0;
  get(in, size);
  if (!in || size > kMostElements) throw std::runtime_error("a length in it is wrong");
  list.resize(size);
  in.read(reinterpret_cast<char*>(list.data()), static_cast<std::streamsize>(size * sizeof(T)));
}

void put_all(std::ostream& out, const Checkpoint& c) {
  put(out, kMagic);
  put(out, c.step);
  put(out, std::uint64_t{c.gated});
  put(out, c.weights);
  put(out, c.adam.updates);
  put(out, c.adam.masters);
  put(out, c.adam.first_moments);
  put(out, c.adam.second_moments);
  put(out, c.judge);
}

Checkpoint get_all(std::istream& in) {
  Checkpoint c;
  std::uint64_t magic = 0, gated = 0;
  get(in, magic);
  if (!in || magic != kMagic) throw std::runtime_error("it is no checkpoint of charlm");
  get(in, c.step);
  get(in, gated);
  c.gated = gated != 0;
  get(in, c.weights);
  get(in, c.adam.updates);
  get(in, c.adam.masters);
  get(in, c.adam.first_moments);
  get(in, c.adam.second_moments);
  get(in, c.judge);
  if (!in) throw std::runtime_error("it is cut short");
  return c;
}

}  // namespace

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  const std::string temporary = path + ".new";
  std::ofstream out(temporary, std::ios::binary);
  put_all(out, checkpoint);
  out.close();
  if (!out || std::rename(temporary.c_str(), path.c_str()) != 0) {
    throw std::runtime_error("cannot write the checkpoint " + path);
  }
}

Checkpoint read_checkpoint(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read the checkpoint " + path);
  try {
    return get_all(in);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("the checkpoint " + path + ": " + error.what());
  }
}

std::string path_of_rank(const std::string& path, unsigned rank) {
  return path + ".rank" + std::to_string(rank);
}

}  // namespace stepgate::charlm

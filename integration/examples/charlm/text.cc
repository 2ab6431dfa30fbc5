#include "integration/examples/charlm/text.h"

#include <array>
#include <cmath>
#include <stdexcept>

#include "integration/examples/charlm/files.h"

namespace stepgate::charlm {

Text Text::read(const std::string& path) {
  const std::string characters = read_whole_file(path, "the text");
  if (characters.empty()) throw std::runtime_error("the text " + path + " is empty");
  return Text(characters);
}

Text::Text(const std::string& characters) {
  std::array<int, 256> number;
  number.fill(-1);
  for (const char c : characters) number[static_cast<unsigned char>(c)] = 0;
  for (int& n : number) {
    if (n == 0) n = static_cast<int>(vocabulary_++);
  }
  symbols_.reserve(characters.size());
  for (const char c : characters) {
    symbols_.push_back(static_cast<std::uint8_t>(number[static_cast<unsigned char>(c)]));
  }
}

double Text::unigram_entropy() const {
  std::vector<std::size_t> counts(vocabulary_, 0);
  for (const std::uint8_t symbol : symbols_) ++counts[symbol];
  double entropy = 0;
  for (const std::size_t count : counts) {
    const double share = static_cast<double>(count) / static_cast<double>(size());
    entropy -= share * std::log(share);
  }
  return entropy;
}

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

Sampler::Sampler(const Text& text, std::size_t context, unsigned rank, unsigned world, std::uint64_t seed)
    : first_(text.size() * rank / world), choices_(0), seed_(mix(seed * 1024 + rank)) {
  const std::size_t end = text.size() * (rank + 1) / world;
  if (end - first_ <= context) {
    throw std::runtime_error("the text has " + std::to_string(text.size()) + " characters: too few for " +
                             std::to_string(world) + " ranks with a window of " + std::to_string(context));
  }
  choices_ = end - first_ - context;
}

std::size_t Sampler::start(std::uint64_t step, std::size_t example) const {
  return first_ + mix(mix(seed_ + step) + example) % choices_;
}

}  // namespace stepgate::charlm

// The training text: its characters as small numbers, each rank's part of it, its entropy.
//
// Thread: any after construction. Order, lock: none. Ownership: owns the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stepgate::charlm {

class Text {
 public:
  // Throws std::runtime_error naming the file.
  static Text read(const std::string& path);
  explicit Text(const std::string& characters);

  std::size_t size() const { return symbols_.size(); }
  std::size_t vocabulary() const { return vocabulary_; }
  std::uint8_t symbol(std::size_t at) const { return symbols_[at]; }
  // Of single characters, in nats: what a model reaches that knows frequencies alone.
  double unigram_entropy() const;

 private:
  std::vector<std::uint8_t> symbols_;
  std::size_t vocabulary_ = 0;
};

// Where the samples of one rank begin, chosen anew for each step and example by a counter, so that
// a resumed run draws what the uninterrupted one would have drawn.
class Sampler {
 public:
  // Throws std::runtime_error when the rank's part is shorter than one sample.
  Sampler(const Text& text, std::size_t context, unsigned rank, unsigned world, std::uint64_t seed);
  // Start of a window of `context` characters and the one to predict.
  std::size_t start(std::uint64_t step, std::size_t example) const;

 private:
  std::size_t first_;
  std::size_t choices_;
  std::uint64_t seed_;
};

// A well-mixed 64-bit hash (splitmix64's finaliser).
std::uint64_t mix(std::uint64_t x);

}  // namespace stepgate::charlm

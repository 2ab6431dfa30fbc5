#include "integration/examples/charlm/resume.h"

#include <chrono>
#include <exception>
#include <random>
#include <stdexcept>
#include <thread>

namespace stepgate::charlm {
namespace {

// What a rank tells the others.
struct Word {
  std::uint64_t refused = 0;
  std::uint64_t random = 0;
  CheckpointHeader header;
};
constexpr std::size_t kNumbers = sizeof(Word) / sizeof(std::uint64_t);
static_assert(sizeof(Word) % sizeof(std::uint64_t) == 0);

std::uint64_t random_number() {
  std::random_device source;
  return std::uint64_t{source()} << 32 | source();
}

std::vector<Word> words_of_all(const Word& own, std::uint64_t world, Engine& engine) {
  std::vector<Word> words(world);
  engine.gather(&own, words.data(), kNumbers);
  return words;
}

void check_together(const std::vector<Word>& words, const std::string& path) {
  std::vector<CheckpointHeader> headers;
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    if (words[rank].refused != 0) {
      // The rank with the bad file should be the first to end: launchers blame the first.
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
      throw std::runtime_error("rank " + std::to_string(rank) + " refuses the checkpoint " +
                               path_of_rank(path, static_cast<unsigned>(rank)) + "; it says why");
    }
    headers.push_back(words[rank].header);
  }
  const std::string wrong = mixture(headers);
  if (!wrong.empty()) throw std::runtime_error("the files of --resume " + path + " are a mixture: " + wrong);
}

Checkpoint read_fitting(const Options& options, const CheckpointHeader& own,
                        const std::function<void(const Checkpoint&)>& restore) {
  const std::string path = path_of_rank(options.resume, static_cast<unsigned>(own.rank));
  Checkpoint checkpoint = read_checkpoint(path);
  check_header(checkpoint.header, own, options.steps, path);
  restore(checkpoint);
  return checkpoint;
}

}  // namespace

Resumed resume_together(const Options& options, const CheckpointHeader& own, Engine& engine,
                        const std::function<void(const Checkpoint&)>& restore) {
  Resumed resumed;
  Word word;
  word.random = random_number();
  std::exception_ptr refusal;
  try {
    if (!options.resume.empty()) resumed.checkpoint = read_fitting(options, own, restore);
    word.header = resumed.checkpoint.header;
  } catch (const std::exception&) {
    // The others have to hear of it first, or they would take the silence for this rank's death.
    refusal = std::current_exception();
    word.refused = 1;
  }
  const std::vector<Word> words = words_of_all(word, own.world, engine);
  if (refusal) std::rethrow_exception(refusal);
  if (!options.resume.empty()) check_together(words, options.resume);
  resumed.run = words.front().random;
  return resumed;
}

}  // namespace stepgate::charlm

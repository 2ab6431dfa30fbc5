// charlm: a real small job for StepGate. Ranks come from the environment (as stepgate run, torchrun
// or Slurm set it) or, with --threads, from this process. The environment is read here alone.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "integration/examples/charlm/bootstrap.h"
#include "integration/examples/charlm/communicator.h"
#include "integration/examples/charlm/files.h"
#include "integration/examples/charlm/options.h"
#include "integration/examples/charlm/parse.h"
#include "integration/examples/charlm/text.h"
#include "integration/examples/charlm/trainer.h"

namespace {

using namespace stepgate::charlm;

unsigned number_from(const char* variable, unsigned otherwise, unsigned low, unsigned high) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<unsigned>(parse_whole(variable, text, low, high));
}

Meeting meeting_from_environment(double seconds) {
  Meeting meeting;
  meeting.seconds = seconds;
  if (const char* address = std::getenv("MASTER_ADDR")) meeting.address = address;
  meeting.port = number_from("MASTER_PORT", meeting.port, 1, 65535);
  return meeting;
}

void train(const Options& options, const Text& text, const ncclUniqueId& id, unsigned rank, unsigned world) {
  Communicator communicator(id, rank, world);
  Trainer(options, text, rank, world, communicator).run();
}

void train_as_process(const Options& options, const Text& text) {
  const unsigned world = number_from("WORLD_SIZE", 1, 1, 1u << 20);
  const unsigned rank = number_from("RANK", 0, 0, world - 1);
  const Meeting meeting = meeting_from_environment(options.bootstrap_seconds);
  train(options, text, exchange_unique_id(meeting, rank, world), rank, world);
}

// A rank that fails leaves; the others then find it gone in their next collective.
void train_as_threads(const Options& options, const Text& text) {
  const ncclUniqueId id = new_unique_id();
  std::mutex lock;
  std::string first_error;
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < options.threads; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        train(options, text, id, rank, options.threads);
      } catch (const std::exception& error) {
        const std::lock_guard<std::mutex> guard(lock);
        if (first_error.empty()) first_error = "rank " + std::to_string(rank) + ": " + error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!first_error.empty()) throw std::runtime_error(first_error);
}

int run(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  if (options.help) {
    std::fputs(help_text(), stdout);
    flush_standard_output();
    return 0;
  }
  const Text text = Text::read(options.text);
  if (options.threads > 0) {
    train_as_threads(options, text);
  } else {
    train_as_process(options, text);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    hold_standard_streams();
    return run(argc, argv);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "charlm: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "charlm: %s\n", error.what());
    return 1;
  }
}

// charlm: a real small job for StepGate. Ranks come from the environment (as stepgate run, torchrun
// or Slurm set it) or, with --threads, from this process. The environment is read here alone.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "integration/examples/charlm/bootstrap.h"
#include "integration/examples/charlm/communicator.h"
#include "integration/examples/charlm/device/device.h"
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

constexpr char kCudaDriver[] = "libcuda.so.1";

struct Place {
  unsigned rank;
  unsigned world;
  unsigned local_rank;
};

void train_on_host(const Options& options, const Text& text, const ncclUniqueId& id, const Place& place) {
  Communicator communicator(id, place.rank, place.world);
  Trainer(options, text, place.rank, place.world, communicator).run();
}

void train_on_device(const Options& options, const Text& text, Device& device, const ncclUniqueId& id,
                     const Place& place) {
  Communicator communicator(id, place.rank, place.world, device.stream());
  Trainer trainer(options, text, place.rank, place.world, communicator, &device);
  try {
    trainer.run();
  } catch (...) {
    // Before anything is given back: the stream may be waiting for a rank that has gone.
    communicator.abort();
    throw;
  }
}

// meet: gives NCCL's unique id. Asked once the device is there: a rank without one has nobody wait for it.
void train(const Options& options, const Text& text, const std::function<ncclUniqueId()>& meet,
           const Place& place) {
  if (!options.cuda) return train_on_host(options, text, meet(), place);
  Device device(kCudaDriver, place.local_rank);
  train_on_device(options, text, device, meet(), place);
}

void train_as_process(const Options& options, const Text& text) {
  const unsigned world = number_from("WORLD_SIZE", 1, 1, 1u << 20);
  const unsigned rank = number_from("RANK", 0, 0, world - 1);
  const Meeting meeting = meeting_from_environment(options.bootstrap_seconds);
  const unsigned local_rank = number_from("LOCAL_RANK", rank, 0, 1u << 20);
  train(options, text, [&] { return exchange_unique_id(meeting, rank, world); }, {rank, world, local_rank});
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
        train(options, text, [&] { return id; }, {rank, options.threads, rank});
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

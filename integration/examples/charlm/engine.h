// One rank's gradients, optimizer and judge: everything of a step that follows the backward.
//
//   double scale = engine->judge().begin();  ... backward ...  Verdict v = engine->finish(gradients,
//   weights);
//
// HostEngine keeps all of it in host memory, DeviceEngine (device/) in that of a GPU.
// Thread: one per object. Order: restore() at most once, start(), then step after step; start(), finish()
// and gather() are collective. Lock: none. Ownership: owns all three; communicator and device are lent.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "integration/examples/charlm/adam.h"
#include "integration/examples/charlm/judge.h"

namespace stepgate::charlm {

class Device;

class Engine {
 public:
  virtual ~Engine() = default;

  // Makes the judge. state: of a checkpoint, empty at a fresh start; steps_done: likewise.
  virtual void start(std::vector<unsigned char> state, std::uint64_t steps_done) = 0;
  virtual Judge* judge() = 0;  // nullptr before start()

  // Reduces, has the step judged, updates or does not, and brings every rank all weights (flat, rounded to
  // fp16). gradients: flat, scaled, of this rank.
  virtual Verdict finish(const float* gradients, float* weights) = 0;

  virtual Adam::State optimizer() = 0;
  // False, and nothing changed, when the sizes differ.
  virtual bool restore(const Adam::State& state) = 0;

  // `numbers` words of 64 bits of every rank, in the order of the ranks.
  virtual void gather(const void* own, void* all, std::size_t numbers) = 0;
};

// device: of --device cuda, else nullptr.
std::unique_ptr<Engine> make_engine(const Options& options, const std::vector<Parameter>& parameters,
                                    const std::vector<float>& initial, unsigned rank, unsigned world,
                                    Communicator& communicator, Device* device);

}  // namespace stepgate::charlm

#include "integration/examples/charlm/engine.h"

#include "integration/examples/charlm/device/device_engine.h"
#include "integration/examples/charlm/host_engine.h"

namespace stepgate::charlm {

std::unique_ptr<Engine> make_engine(const Options& options, const std::vector<Parameter>& parameters,
                                    const std::vector<float>& initial, unsigned rank, unsigned world,
                                    Communicator& communicator, Device* device) {
  if (device != nullptr) {
    return std::make_unique<DeviceEngine>(options, parameters, initial, rank, world, communicator, *device);
  }
  return std::make_unique<HostEngine>(options, parameters, initial, rank, world, communicator);
}

}  // namespace stepgate::charlm

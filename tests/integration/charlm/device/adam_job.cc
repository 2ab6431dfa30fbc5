#include "tests/integration/charlm/device/adam_job.h"

#include <bit>
#include <cmath>
#include <limits>

#include "integration/examples/charlm/half.h"
#include "tests/test_seed.h"

namespace stepgate::test {

using namespace charlm;

namespace {

constexpr double kLearningRate = 2e-3;

// One element, none, fewer than a block's threads, more than a block takes.
std::vector<Piece> pieces() {
  std::vector<Piece> list;
  std::size_t before = 0;
  for (const std::size_t count : {1, 0, 77, 2500}) {
    list.push_back({3, count, before});
    before += count;
  }
  return list;
}

std::vector<float> first_masters(std::size_t count) {
  std::vector<float> masters(count);
  for (std::size_t i = 0; i < count; ++i) masters[i] = 0.1f * std::sin(static_cast<float>(i));
  return masters;
}

}  // namespace

std::uint64_t different(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<std::uint64_t>::max();
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    count += std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]);
  }
  return count;
}

AdamJob::AdamJob(const AdamJobOptions& options)
    : options_(options),
      device_(StandIn::path(), 0),
      pieces_(pieces()),
      count_(pieces_.back().optimizer_first + pieces_.back().count),
      targets_(allocate()),
      outputs_(device_.memory<stepgate_outputs_t>(1)),
      adam_(device_, targets_, options.type, options.shares, kLearningRate),
      captured_(device_),
      host_(first_masters(count_), kLearningRate),
      random_(static_cast<unsigned>(test_seed())) {
  EXPECT_TRUE(adam_.put(host_.state()));
}

std::vector<DeviceAdam::Target> AdamJob::allocate() {
  std::vector<DeviceAdam::Target> targets;
  for (const Piece& piece : pieces_) {
    gradients_.push_back(device_.memory<char>(piece.count * element_size(options_.type)));
    targets.push_back({piece, gradients_.back(), device_.memory<std::uint16_t>(piece.count)});
  }
  return targets;
}

std::vector<float> AdamJob::random_values(float size) {
  std::normal_distribution<float> normal(0, size);
  std::vector<float> values(count_);
  for (float& value : values) value = normal(random_);
  return values;
}

void AdamJob::step(bool skip, float grad_scale, float size) {
  const float divisor = adam_divisor(grad_scale, options_.shares);
  std::vector<float> values = random_values(size * divisor);
  if (skip) values[count_ / 2] = std::numeric_limits<float>::quiet_NaN();
  if (!skip) host_.begin_update();
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    std::vector<char> packed(piece.count * element_size(options_.type));
    std::vector<float> read(piece.count);
    pack(options_.type, values.data() + piece.optimizer_first, piece.count, packed.data());
    device_.upload(gradients_[i], packed.data(), packed.size());
    unpack(options_.type, packed.data(), piece.count, read.data());
    for (float& g : read) g /= divisor;
    if (!skip) host_.update(piece.optimizer_first, piece.count, read.data());
  }
  stepgate_outputs_t outputs{};
  outputs.found_inf = skip ? 1.0f : 0.0f;
  outputs.grad_scale = skip ? 1.0f : grad_scale;
  outputs.multiplier = 1.0f / outputs.grad_scale;
  device_.upload(outputs_, &outputs, sizeof outputs);
  enqueue();
}

void AdamJob::enqueue() {
  if (options_.captured) {
    captured_.run([this] { adam_.enqueue(outputs_); });
  } else {
    adam_.enqueue(outputs_);
  }
}

void AdamJob::expect_equal() {
  const Adam::State on_host = host_.state();
  const Adam::State on_device = adam_.state();
  EXPECT_EQ(on_device.updates, on_host.updates);
  EXPECT_EQ(different(on_device.masters, on_host.masters), 0u);
  EXPECT_EQ(different(on_device.first_moments, on_host.first_moments), 0u);
  EXPECT_EQ(different(on_device.second_moments, on_host.second_moments), 0u);
  for (const DeviceAdam::Target& target : targets_) {
    std::vector<std::uint16_t> weights(target.piece.count);
    device_.download(weights.data(), target.weights, weights.size() * sizeof(std::uint16_t));
    device_.synchronize();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      ASSERT_EQ(weights[i], half_bits(on_host.masters[target.piece.optimizer_first + i])) << i;
    }
  }
}

void AdamJob::restart_from(const Adam::State& state) {
  EXPECT_TRUE(host_.restore(state));
  EXPECT_TRUE(adam_.put(state));
}

}  // namespace stepgate::test

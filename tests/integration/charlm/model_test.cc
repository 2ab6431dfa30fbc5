// The hand-written backward against finite differences, and what loss scaling does to the model.
#include "integration/examples/charlm/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "integration/examples/charlm/adam.h"
#include "integration/examples/charlm/half.h"
#include "integration/examples/charlm/text.h"

namespace stepgate::charlm {
namespace {

constexpr std::uint64_t kSeed = 7;

ModelShape small_shape() {
  return {.vocabulary = 11, .context = 5, .embedding = 3, .hidden = 13, .layers = 3};
}

Batch random_batch(const ModelShape& shape, std::size_t examples) {
  Batch batch;
  for (std::size_t i = 0; i < examples * shape.context; ++i) {
    batch.inputs.push_back(static_cast<std::uint8_t>(mix(kSeed + i) % shape.vocabulary));
  }
  for (std::size_t i = 0; i < examples; ++i) {
    batch.targets.push_back(static_cast<std::uint8_t>(mix(kSeed + 1000 + i) % shape.vocabulary));
  }
  return batch;
}

bool all_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

TEST(CharlmModel, BackwardMatchesFiniteDifferences) {
  const ModelShape shape = small_shape();
  constexpr std::size_t kBatch = 6;  // no multiple of the block: the edges of the products as well
  Model<double> model(shape, kBatch);
  const Batch batch = random_batch(shape, kBatch);
  const std::vector<float> start = initial_weights(model.parameters(), kSeed);
  std::vector<double> weights(start.begin(), start.end());
  std::vector<double> gradients(weights.size());
  model.loss_and_gradients(weights.data(), batch, 1.0, gradients.data());
  constexpr double kStep = 1e-5;
  for (const Parameter& parameter : model.parameters()) {
    for (std::size_t i = 0; i < parameter.count(); ++i) {
      double& weight = weights[parameter.offset + i];
      const double kept = weight;
      weight = kept + kStep;
      const double above = model.loss(weights.data(), batch);
      weight = kept - kStep;
      const double below = model.loss(weights.data(), batch);
      weight = kept;
      EXPECT_NEAR((above - below) / (2 * kStep), gradients[parameter.offset + i], 1e-8)
          << parameter.name << "[" << i << "]";
    }
  }
}

// The fp16 model follows the exact one to fp16's precision when the scale keeps values in range.
TEST(CharlmModel, ScaledHalfGradientsFollowTheExactOnes) {
  const ModelShape shape = small_shape();
  Model<double> exact(shape, 8);
  Model<float> half(shape, 8);
  const Batch batch = random_batch(shape, 8);
  std::vector<float> weights = initial_weights(half.parameters(), kSeed);
  round_all_to_half(weights.data(), weights.size());
  const std::vector<double> weights64(weights.begin(), weights.end());
  std::vector<float> gradients(weights.size());
  std::vector<double> gradients64(weights.size());
  constexpr double kScale = 1024;
  const double loss = half.loss_and_gradients(weights.data(), batch, kScale, gradients.data());
  EXPECT_NEAR(loss, exact.loss_and_gradients(weights64.data(), batch, 1.0, gradients64.data()), 5e-3);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_NEAR(gradients[i] / kScale, gradients64[i], 2e-3 + 0.02 * std::abs(gradients64[i])) << i;
    EXPECT_EQ(gradients[i], round_to_half(gradients[i])) << i;
  }
}

TEST(CharlmModel, ScaleOf2To24OverflowsInTheModelAndScale1DoesNot) {
  const ModelShape shape{.vocabulary = 80};
  Model<float> model(shape, 64);
  const Batch batch = random_batch(shape, 64);
  std::vector<float> weights = initial_weights(model.parameters(), kSeed);
  round_all_to_half(weights.data(), weights.size());
  std::vector<float> gradients(weights.size());
  model.loss_and_gradients(weights.data(), batch, 1.0, gradients.data());
  EXPECT_TRUE(all_finite(gradients));
  model.loss_and_gradients(weights.data(), batch, 0x1p24, gradients.data());
  EXPECT_FALSE(all_finite(gradients));
}

TEST(CharlmModel, ScaleThatIsTooSmallLosesGradientsToUnderflow) {
  const ModelShape shape{.vocabulary = 80};
  Model<float> model(shape, 64);
  const Batch batch = random_batch(shape, 64);
  std::vector<float> weights = initial_weights(model.parameters(), kSeed);
  std::vector<float> gradients(weights.size());
  const auto zeros = [&](double scale) {
    model.loss_and_gradients(weights.data(), batch, scale, gradients.data());
    return std::count(gradients.begin(), gradients.end(), 0.0f);
  };
  EXPECT_GT(zeros(0x1p-10), 4 * zeros(0x1p8));
}

TEST(CharlmModel, LearnsOneBatchByHeart) {
  const ModelShape shape = small_shape();
  Model<float> model(shape, 16);
  const Batch batch = random_batch(shape, 16);
  Adam adam(initial_weights(model.parameters(), kSeed), 1e-2);
  std::vector<float> weights = adam.masters();
  std::vector<float> gradients(weights.size());
  double loss = 0;
  for (int step = 0; step < 200; ++step) {
    loss = model.loss_and_gradients(weights.data(), batch, 256, gradients.data());
    for (float& g : gradients) g /= 256;
    adam.begin_update();
    adam.update(0, gradients.size(), gradients.data());
    weights = adam.masters();
    round_all_to_half(weights.data(), weights.size());
  }
  EXPECT_LT(loss, 0.1);
}

TEST(CharlmText, UnigramEntropyIsTheDefinition) {
  EXPECT_DOUBLE_EQ(Text("aabb").unigram_entropy(), std::log(2.0));
  EXPECT_DOUBLE_EQ(Text("aaaa").unigram_entropy(), 0.0);
  EXPECT_NEAR(Text("aaab").unigram_entropy(), 0.75 * std::log(4 / 3.0) + 0.25 * std::log(4.0), 1e-15);
}

TEST(CharlmText, RanksDrawFromTheirOwnPartsOnly) {
  const Text text(std::string(1000, 'a'));
  for (unsigned rank = 0; rank < 4; ++rank) {
    const Sampler sampler(text, 16, rank, 4, kSeed);
    for (std::size_t i = 0; i < 2000; ++i) {
      const std::size_t start = sampler.start(i / 10, i % 10);
      EXPECT_GE(start, 250 * rank);
      EXPECT_LT(start + 16, 250 * (rank + 1));
    }
  }
  EXPECT_THROW(Sampler(text, 300, 0, 4, kSeed), std::runtime_error);
}

}  // namespace
}  // namespace stepgate::charlm

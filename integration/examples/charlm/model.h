// The language model: a window of characters -> embedding -> tanh layers -> softmax, with its own
// backward, in mixed precision: values rounded to fp16, sums in fp32.
//
// Model<float> rounds activations and gradients to fp16. Model<double> rounds nothing: the same
// code, so that finite differences can check the backward.
// Thread: one per object. Order: loss_and_gradients() any number of times. Lock: none.
// Ownership: owns its activations; weights and gradients are the caller's flat arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stepgate::charlm {

struct ModelShape {
  std::size_t vocabulary = 0;
  std::size_t context = 16;
  std::size_t embedding = 16;
  std::size_t hidden = 128;
  std::size_t layers = 2;  // hidden ones
};

struct Parameter {
  std::string name;   // "hidden1.weight"
  std::string layer;  // "hidden1"
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t offset = 0;  // in the flat arrays
  std::size_t count() const { return rows * columns; }
};

// In forward order; offsets are contiguous.
std::vector<Parameter> parameters_of(const ModelShape& shape);
std::size_t parameter_count(const std::vector<Parameter>& parameters);
// Small random weights, the same for one seed on every rank.
std::vector<float> initial_weights(const std::vector<Parameter>& parameters, std::uint64_t seed);

// A batch: inputs[example * context + position], targets[example].
struct Batch {
  std::vector<std::uint8_t> inputs;
  std::vector<std::uint8_t> targets;
};

template <typename T>
class Model {
 public:
  Model(const ModelShape& shape, std::size_t batch);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  // Mean loss in nats. gradients: of loss * loss_scale, one per weight, overwritten.
  double loss_and_gradients(const T* weights, const Batch& batch, double loss_scale, T* gradients);
  double loss(const T* weights, const Batch& batch);

 private:
  void forward(const T* weights, const Batch& batch);
  void embed(const T* table, const Batch& batch);
  double softmax(const Batch& batch);
  void loss_gradient(const Batch& batch, double loss_scale);
  void backward_dense(std::size_t layer, const T* weights, T* gradients);
  void through_tanh(std::size_t layer);
  void backward_embedding(const Batch& batch, T* gradients);

  // Dense layer i maps layer_inputs_[i] to layer_inputs_[i + 1]; the last one gives logits.
  std::size_t width(std::size_t layer) const { return widths_[layer]; }
  const Parameter& weight(std::size_t layer) const { return parameters_[1 + 2 * layer]; }
  const Parameter& bias(std::size_t layer) const { return parameters_[2 + 2 * layer]; }

  ModelShape shape_;
  std::size_t batch_;
  std::vector<Parameter> parameters_;
  std::vector<std::size_t> widths_;     // input of each dense layer, then the vocabulary
  std::vector<std::vector<T>> values_;  // batch x widths_[i]
  std::vector<std::vector<T>> errors_;  // gradients of values_
  std::vector<T> probabilities_;
  std::vector<T> turned_;  // a transposed operand
};

}  // namespace stepgate::charlm

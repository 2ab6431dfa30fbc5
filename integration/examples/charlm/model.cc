#include "integration/examples/charlm/model.h"

#include <algorithm>
#include <cmath>

#include "integration/examples/charlm/half.h"
#include "integration/examples/charlm/matrix.h"
#include "integration/examples/charlm/text.h"

namespace stepgate::charlm {
namespace {

void add(std::vector<Parameter>& list, const std::string& layer, const char* kind, std::size_t rows,
         std::size_t columns) {
  const std::size_t offset = list.empty() ? 0 : list.back().offset + list.back().count();
  list.push_back({layer + "." + kind, layer, rows, columns, offset});
}

void add_dense(std::vector<Parameter>& list, const std::string& layer, std::size_t in, std::size_t out) {
  add(list, layer, "weight", in, out);
  add(list, layer, "bias", 1, out);
}

// In (-1, 1).
float uniform(std::uint64_t seed, std::uint64_t index) {
  return static_cast<float>(static_cast<double>(mix(seed + index) >> 11) * 0x1p-52 - 1.0);
}

// What every value goes through between two layers.
void to_compute_type(float* data, std::size_t count) {
  round_all_to_half(data, count);
}
void to_compute_type(double*, std::size_t) {}

template <typename T>
void add_bias(T* rows, const T* bias, std::size_t count, std::size_t width) {
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t c = 0; c < width; ++c) rows[r * width + c] += bias[c];
  }
}

template <typename T>
void sum_rows(const T* rows, T* sums, std::size_t count, std::size_t width) {
  std::fill_n(sums, width, T{0});
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t c = 0; c < width; ++c) sums[c] += rows[r * width + c];
  }
}

}  // namespace

std::vector<Parameter> parameters_of(const ModelShape& shape) {
  std::vector<Parameter> list;
  add(list, "embedding", "weight", shape.vocabulary, shape.embedding);
  std::size_t in = shape.context * shape.embedding;
  for (std::size_t i = 1; i <= shape.layers; ++i) {
    add_dense(list, "hidden" + std::to_string(i), in, shape.hidden);
    in = shape.hidden;
  }
  add_dense(list, "output", in, shape.vocabulary);
  return list;
}

std::size_t parameter_count(const std::vector<Parameter>& parameters) {
  return parameters.back().offset + parameters.back().count();
}

std::vector<float> initial_weights(const std::vector<Parameter>& parameters, std::uint64_t seed) {
  std::vector<float> weights(parameter_count(parameters), 0.0f);
  for (const Parameter& parameter : parameters) {
    if (parameter.rows == 1) continue;  // biases start at zero
    const bool table = parameter.layer == "embedding";
    const float range = table ? 0.5f : std::sqrt(3.0f / static_cast<float>(parameter.rows));
    for (std::size_t i = 0; i < parameter.count(); ++i) {
      weights[parameter.offset + i] = range * uniform(mix(seed), parameter.offset + i);
    }
  }
  return weights;
}

template <typename T>
Model<T>::Model(const ModelShape& shape, std::size_t batch)
    : shape_(shape), batch_(batch), parameters_(parameters_of(shape)) {
  widths_.push_back(shape.context * shape.embedding);
  widths_.insert(widths_.end(), shape.layers, shape.hidden);
  widths_.push_back(shape.vocabulary);
  std::size_t largest = 0;
  for (std::size_t i = 0; i < widths_.size(); ++i) {
    values_.emplace_back(batch * widths_[i]);
    errors_.emplace_back(batch * widths_[i]);
    largest = std::max(largest, batch * widths_[i]);
    if (i > 0) largest = std::max(largest, widths_[i - 1] * widths_[i]);
  }
  turned_.resize(largest);
  probabilities_.resize(batch * shape.vocabulary);
}

template <typename T>
double Model<T>::loss(const T* weights, const Batch& batch) {
  forward(weights, batch);
  return softmax(batch);
}

template <typename T>
double Model<T>::loss_and_gradients(const T* weights, const Batch& batch, double loss_scale, T* gradients) {
  const double mean = loss(weights, batch);
  loss_gradient(batch, loss_scale);
  for (std::size_t layer = widths_.size() - 1; layer-- > 0;) {
    backward_dense(layer, weights, gradients);
    if (layer > 0) through_tanh(layer);
  }
  backward_embedding(batch, gradients);
  to_compute_type(gradients, parameter_count(parameters_));
  return mean;
}

template <typename T>
void Model<T>::forward(const T* weights, const Batch& batch) {
  embed(weights + parameters_[0].offset, batch);
  for (std::size_t layer = 0; layer + 1 < widths_.size(); ++layer) {
    std::vector<T>& out = values_[layer + 1];
    multiply(values_[layer].data(), weights + weight(layer).offset, out.data(), batch_, width(layer),
             width(layer + 1));
    add_bias(out.data(), weights + bias(layer).offset, batch_, width(layer + 1));
    to_compute_type(out.data(), out.size());
    if (layer + 2 == widths_.size()) break;  // logits
    for (T& x : out) x = std::tanh(x);
    to_compute_type(out.data(), out.size());
  }
}

template <typename T>
void Model<T>::embed(const T* table, const Batch& batch) {
  T* out = values_[0].data();
  for (const std::uint8_t symbol : batch.inputs) {
    out = std::copy_n(table + symbol * shape_.embedding, shape_.embedding, out);
  }
}

template <typename T>
double Model<T>::softmax(const Batch& batch) {
  const std::size_t n = shape_.vocabulary;
  double total = 0;
  for (std::size_t b = 0; b < batch_; ++b) {
    const T* logits = values_.back().data() + b * n;
    T* p = probabilities_.data() + b * n;
    const T largest = *std::max_element(logits, logits + n);
    T sum = 0;
    for (std::size_t c = 0; c < n; ++c) sum += p[c] = std::exp(logits[c] - largest);
    for (std::size_t c = 0; c < n; ++c) p[c] /= sum;
    total += std::log(static_cast<double>(sum)) - static_cast<double>(logits[batch.targets[b]] - largest);
  }
  return total / static_cast<double>(batch_);
}

// The scale comes in before the first rounding: what would vanish in fp16 is lifted, and a scale
// that is too large overflows here and in everything that follows.
template <typename T>
void Model<T>::loss_gradient(const Batch& batch, double loss_scale) {
  const std::size_t n = shape_.vocabulary;
  std::vector<T>& error = errors_.back();
  const T factor = static_cast<T>(loss_scale / static_cast<double>(batch_));
  for (std::size_t b = 0; b < batch_; ++b) {
    const T* p = probabilities_.data() + b * n;
    for (std::size_t c = 0; c < n; ++c) error[b * n + c] = p[c] * factor;
    const std::size_t target = batch.targets[b];
    error[b * n + target] = (p[target] - T{1}) * factor;
  }
  to_compute_type(error.data(), error.size());
}

template <typename T>
void Model<T>::backward_dense(std::size_t layer, const T* weights, T* gradients) {
  const std::size_t in = width(layer);
  const std::size_t out = width(layer + 1);
  const T* error = errors_[layer + 1].data();
  transpose(values_[layer].data(), turned_.data(), batch_, in);
  multiply(turned_.data(), error, gradients + weight(layer).offset, in, batch_, out);
  sum_rows(error, gradients + bias(layer).offset, batch_, out);
  transpose(weights + weight(layer).offset, turned_.data(), in, out);
  multiply(error, turned_.data(), errors_[layer].data(), batch_, out, in);
  to_compute_type(errors_[layer].data(), errors_[layer].size());
}

template <typename T>
void Model<T>::through_tanh(std::size_t layer) {
  std::vector<T>& error = errors_[layer];
  const std::vector<T>& value = values_[layer];
  for (std::size_t i = 0; i < error.size(); ++i) error[i] *= T{1} - value[i] * value[i];
  to_compute_type(error.data(), error.size());
}

template <typename T>
void Model<T>::backward_embedding(const Batch& batch, T* gradients) {
  const Parameter& table = parameters_[0];
  std::fill_n(gradients + table.offset, table.count(), T{0});
  const T* error = errors_[0].data();
  for (const std::uint8_t symbol : batch.inputs) {
    T* row = gradients + table.offset + symbol * shape_.embedding;
    for (std::size_t c = 0; c < shape_.embedding; ++c) row[c] += *error++;
  }
}

template class Model<float>;
template class Model<double>;

}  // namespace stepgate::charlm

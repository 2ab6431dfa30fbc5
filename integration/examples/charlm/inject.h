// Faults put into a rank's own gradients, before they are reduced.
//
// Thread: any. Order, lock: none. Ownership: the caller's arrays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "integration/examples/charlm/model.h"

namespace stepgate::charlm {

enum class Fault { kInf, kNan, kUnderflow };

struct Injection {
  unsigned rank = 0;
  std::uint64_t step = 0;
  std::string parameter;
  Fault fault = Fault::kNan;
};

// In about `rate` of the steps one rank gets an inf or a NaN; which one follows from seed and step,
// so every rank and every resumed run knows the same faults.
struct RandomInjections {
  std::uint64_t seed = 0;
  double rate = 0;
};

// "rank:step:parameter:inf|nan|underflow" and "seed:rate"; throw std::invalid_argument.
Injection parse_injection(std::string_view text);
RandomInjections parse_random_injections(std::string_view text);

// The fault of this step, if there is one.
std::optional<Injection> random_injection(const RandomInjections& random, std::uint64_t step, unsigned world,
                                          const std::vector<Parameter>& parameters);

// Throws std::invalid_argument when no parameter has the name.
const Parameter& find_parameter(const std::vector<Parameter>& parameters, const std::string& name);

// inf and nan go into one element, underflow scales all of them to what fp16 holds as zero or
// subnormal.
void inject(Fault fault, const Parameter& parameter, float* gradients);

}  // namespace stepgate::charlm

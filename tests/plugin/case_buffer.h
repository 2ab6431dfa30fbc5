// Gradients as tests/vectors/agreement_cases.json writes them: numbers with inf and nan as words, a list
// or {repeat, count}, in the case's own element type.
//
// Thread: any. Order, lock: none. Ownership: a Buffer owns its bytes; a range declared on it must not
// outlive it.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/collectives/device/scan_oracle.h"
#include "tests/plugin/fake_world.h"

namespace stepgate::test {

inline double number(const nlohmann::json& j) {
  if (j.is_number()) return j.get<double>();
  const std::string text = j;
  if (text == "nan") return kNan;
  return text == "inf" ? kInf : -kInf;
}

inline std::vector<double> numbers(const nlohmann::json& list) {
  if (list.is_object())
    return std::vector<double>(list.at("count").get<std::size_t>(), number(list.at("repeat")));
  std::vector<double> values;
  for (const nlohmann::json& j : list) values.push_back(number(j));
  return values;
}

inline ElementType type_named(const std::string& name) {
  for (const ElementType t : kStoredTypes) {
    if (type_label(t) == name) return t;
  }
  ADD_FAILURE() << "no element type " << name;
  return ElementType::kFp32;
}

// A rank's gradient in memory of its own.
struct Buffer {
  ElementType type;
  ElementType compute;
  std::size_t count;
  std::vector<unsigned char> bytes;

  Buffer(const nlohmann::json& c, const std::vector<double>& values)
      : type(type_named(c.value("dtype", "fp32"))),
        compute(type_named(c.value("compute_type", "fp16"))),
        count(values.size()),
        bytes(pack(type, encode_all(type, values))) {}

  std::vector<double> values() const {
    std::vector<double> v;
    for (const std::uint64_t e : unpack(type, bytes.data(), count)) v.push_back(decode(type, e));
    return v;
  }

  std::uint32_t declare(Rank& r, bool counted) {
    gate::RangeSpec spec;
    spec.name = "gradient";
    spec.segments = {{bytes.data(), count}};
    spec.parameters = {"parameter"};
    spec.type = type;
    spec.compute = compute;
    spec.counted = counted;
    return r.declare(std::move(spec));
  }
};

}  // namespace stepgate::test

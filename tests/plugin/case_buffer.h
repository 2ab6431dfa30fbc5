// Gradients as tests/vectors/agreement_cases.json writes them: numbers with inf and nan as words, a list
// or {repeat, count}, in the case's own element type.
//
// Thread: any. Order, lock: none. Ownership: the memory is the rank's and lives as long as it.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/collectives/device/scan_oracle.h"
#include "tests/plugin/agreement_cases.h"

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
  CaseRank& rank;
  ElementType type;
  ElementType compute;
  std::size_t count;
  void* data;

  Buffer(CaseRank& r, const nlohmann::json& c, const std::vector<double>& values)
      : rank(r),
        type(type_named(c.value("dtype", "fp32"))),
        compute(type_named(c.value("compute_type", "fp16"))),
        count(values.size()),
        data(r.allocate(count * element_size(type))) {
    store(values);
  }

  void store(const std::vector<double>& values) const {
    rank.store(data, pack(type, encode_all(type, values)));
  }

  std::vector<double> values() const {
    std::vector<double> v;
    const std::vector<unsigned char> bytes = rank.load(data, count * element_size(type));
    for (const std::uint64_t e : unpack(type, bytes.data(), count)) v.push_back(decode(type, e));
    return v;
  }

  std::uint32_t declare(bool counted) const {
    gate::RangeSpec spec;
    spec.name = "gradient";
    spec.segments = {{data, count}};
    spec.parameters = {"parameter"};
    spec.type = type;
    spec.compute = compute;
    spec.counted = counted;
    std::uint32_t id = 0;
    EXPECT_EQ(rank.gate().declare_range(std::move(spec), &id), STEPGATE_OK) << gate::last_error();
    return id;
  }
};

}  // namespace stepgate::test

// Recorded cases from tests/vectors. Apart from support.h, since JSON is slow to compile.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace stepgate::test {

inline nlohmann::json load_vectors(const std::string& name) {
  std::ifstream file("tests/vectors/" + name);
  EXPECT_TRUE(file.good()) << "tests/vectors/" << name << " (run from the repository's root)";
  return nlohmann::json::parse(file);
}

}  // namespace stepgate::test

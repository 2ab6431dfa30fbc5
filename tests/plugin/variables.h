// Variables: an environment of a test's own, for what reads one. Any thread; the map outlives the function.
#pragma once

#include <map>
#include <string>

#include "plugin/core/identity.h"

namespace stepgate::gate {

using Variables = std::map<std::string, std::string>;

inline Environment environment(const Variables& variables) {
  return [&variables](const char* name) {
    const auto it = variables.find(name);
    return it != variables.end() ? it->second.c_str() : nullptr;
  };
}

}  // namespace stepgate::gate

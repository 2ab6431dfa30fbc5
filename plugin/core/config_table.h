// The table of every environment variable that the plugin reads: one row each, and nothing else in
// the plugin calls getenv (but the shim's constructor, for STEPGATE_PLANE; UCX's own variables are looked
// at before UCX is loaded, and are no settings of ours). The README's table is held equal to this one by a
// test.
//
// Thread: any; immutable data.
#pragma once

#include <span>
#include <string>

namespace stepgate::gate {

struct ConfigEntry {
  const char* name;      // STEPGATE_...
  const char* type;      // "choice", "number", "integer", "text", "path"
  const char* fallback;  // what holds when it is unset, as the README prints it
  const char* allowed;   // values, or a range
  const char* text;      // one sentence
};

std::span<const ConfigEntry> config_table();

// "NAME='value' is refused; allowed: ..." in the table's words.
std::string refused_value(const char* name, const char* value);

}  // namespace stepgate::gate

// The configuration file behind STEPGATE_CONFIG: the environment's names, one `NAME = value` a line.
//
//   # of all ranks of this job
//   STEPGATE_MODE = enforce
//   STEPGATE_JOB_NAME = "run #7"     # quotes keep a #, and blanks at the ends
//
// Rules: blanks around name, value and line do not matter; a line that begins with # and what follows " #"
// are comments; a name stands once; an empty value is no value. One bad line refuses the whole file: half
// a configuration would be another job's. A name that nothing reads is only told of.
//
// Thread: any; pure but for reading the file. Ownership: values.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stepgate::gate {

inline constexpr std::size_t kMaxConfigFileBytes = std::size_t{1} << 20;

struct ConfigFile {
  struct Value {
    std::string text;
    std::string where;  // "PATH:LINE"
  };
  std::map<std::string, Value, std::less<>> values;
  std::vector<std::string> unknown;  // a sentence each
};

// False with *error; *out is whole or untouched. `path` names the file in sentences.
bool parse_config_file(std::string_view text, const std::string& path, ConfigFile* out, std::string* error);

// The same for the file at `path`. *error is only what is wrong, without the variable that named it.
bool read_config_file(const std::string& path, ConfigFile* out, std::string* error);

}  // namespace stepgate::gate

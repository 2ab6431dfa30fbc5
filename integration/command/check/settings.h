// What this environment tells the plugin, read as a rank of a job reads it: variables, the file that
// STEPGATE_CONFIG names, and the launcher's word on how many ranks this machine has.
//
// Thread: main. Order: before anything that sets a variable of the plugin's. Lock: none. Ownership: values.
#pragma once

#include <vector>

#include "integration/command/check/findings.h"
#include "plugin/core/configuration.h"

namespace stepgate::command {

struct Settings {
  bool refused = false;  // then the plugin is off in such a job, and `configuration` holds defaults
  gate::Configuration configuration;
  std::vector<Line> lines;  // rows of the table about them
};

Settings look_at_settings();

}  // namespace stepgate::command

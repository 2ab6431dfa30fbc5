#include "integration/command/check/settings.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "plugin/core/config_names.h"

namespace stepgate::command {
namespace {

Line note(const std::string& text) {
  return {"settings", State::kNote, text, "correct or unset it"};
}

// Whose word the ranks and ports below follow.
std::string ranks_of(const gate::Configuration& c) {
  std::string local =
      std::to_string(c.local_world) + (c.local_world == 1 ? " rank" : " ranks") + " on this machine";
  if (c.launcher.empty()) return local;
  return "rank " + std::to_string(c.rank) + " of " + std::to_string(c.world) + ", " + local + ", by " +
         c.launcher;
}

}  // namespace

Settings look_at_settings() {
  Settings found;
  std::string error;
  std::vector<std::string> notes;
  // A name, for the reader keeps a reference to it.
  const gate::Environment environment = [](const char* name) -> const char* { return std::getenv(name); };
  found.refused = !gate::read_configuration(environment, &found.configuration, &error, &notes);
  if (found.refused) {
    found.lines.push_back(
        {"settings", State::kWrong, error + "; the plugin stays off in such a job", "correct or unset it"});
  }
  std::vector<std::string_view> variables;
  for (char** at = environ; *at != nullptr; ++at) variables.emplace_back(*at);
  for (const std::string& text : notes) found.lines.push_back(note(text));
  for (const std::string& text : gate::unknown_variables(variables)) found.lines.push_back(note(text));
  for (const std::string& text : found.configuration.doubts) found.lines.push_back(note(text));
  if (found.lines.empty()) found.lines.push_back({"settings", State::kOk, ranks_of(found.configuration)});
  return found;
}

}  // namespace stepgate::command

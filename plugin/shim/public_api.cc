// The exported stepgate_* functions: forwarders into the core, which the first of them opens.
#define STEPGATE_BUILDING_SHIM 1
#include "plugin/shim/core_loader.h"
#include "plugin/shim/job_floats.h"
#include "stepgate/stepgate.h"

using stepgate::CoreTable;
using stepgate::shim::JobFloats;
using stepgate::shim::load_core;
using stepgate::shim::load_error;
using stepgate::shim::loaded_core;

#define STEPGATE_TEXT_OF(x) #x
#define STEPGATE_TEXT(x) STEPGATE_TEXT_OF(x)

#define STEPGATE_FORWARD(name, parameters, arguments)                  \
  extern "C" STEPGATE_API stepgate_status stepgate_##name parameters { \
    const JobFloats floats;                                            \
    const CoreTable* core = load_core();                               \
    return core != nullptr ? core->name arguments : STEPGATE_FAILED;   \
  }
STEPGATE_FORWARDED_FUNCTIONS(STEPGATE_FORWARD)

extern "C" STEPGATE_API int stepgate_api_version(void) {
  return STEPGATE_API_VERSION;
}

extern "C" STEPGATE_API const char* stepgate_version(void) {
  return STEPGATE_TEXT(STEPGATE_VERSION_MAJOR) "." STEPGATE_TEXT(STEPGATE_VERSION_MINOR) "." STEPGATE_TEXT(
      STEPGATE_VERSION_PATCH);
}

extern "C" STEPGATE_API const char* stepgate_status_string(stepgate_status status) {
  static const char* const names[] = {"ok",      "unsupported", "invalid",   "refused",
                                      "timeout", "released",    "undecided", "inactive",
                                      "failed",  "diverged",    "no plugin", "off"};
  const auto known = static_cast<int>(sizeof names / sizeof *names);
  return status >= 0 && status < known ? names[status] : "unknown status";
}

extern "C" STEPGATE_API const char* stepgate_last_error(void) {
  const CoreTable* core = loaded_core();
  return core != nullptr ? core->last_error() : load_error();
}

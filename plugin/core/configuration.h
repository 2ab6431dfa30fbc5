// Configuration: every setting of a process, read once, from an environment and from the file that
// STEPGATE_CONFIG names there. What the environment sets wins.
//
// Thread: read_configuration runs once per process under the core's start-up lock; the result is
// immutable. Errors: a bad value is refused with its name, the value and what is allowed; nothing is
// half taken over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/core/decision.h"
#include "collectives/core/scaler.h"
#include "plugin/core/identity.h"

namespace stepgate::gate {

enum class Mode { kOff, kObserve, kEnforce };
enum class Attribution { kAuto, kOn, kOff };
enum class DeviceChoice { kAuto, kHost, kCuda };
enum class LogLevel { kOff = 0, kError = 1, kWarn = 2, kInfo = 3 };

// Values that the caller of gate_create may override; unset ones take the rule's default.
struct ScalerSettings {
  std::optional<ScalerRule> rule;
  std::optional<double> initial_scale, growth, backoff, minimum, maximum;
  std::optional<std::uint64_t> interval, hysteresis;
};

// One row of the configuration table as it came out, for the flight recorder.
struct Setting {
  const char* name;
  std::string value;   // "(hidden)" for what is named a secret
  std::string origin;  // "environment", "PATH:LINE" of the file, or "default"
};

// Rank, world, run id and so on are the launcher's: identity.h.
struct Configuration : JobIdentity {
  Mode mode = Mode::kObserve;
  ScalerSettings scaler;
  double max_norm = 0;
  double skip_norm = 0;
  UnscaleMode unscale = UnscaleMode::kDeferred;
  DivergencePolicy divergence = DivergencePolicy::kVeto;
  ReleasedPolicy released = ReleasedPolicy::kSkip;
  Attribution attribution = Attribution::kAuto;
  std::uint64_t observe_min_count = 1024;
  std::uint64_t observe_ranks = 0;  // 0: any
  std::string observe_comm;         // a pattern; "" any
  DeviceChoice device = DeviceChoice::kAuto;
  double activation_timeout_seconds = 600;
  bool metrics = true;
  std::string metrics_address = "127.0.0.1";
  std::uint64_t metrics_port = 19470;
  std::string metrics_auth_file;
  std::string metrics_tls_certificate;
  std::string metrics_tls_key;
  std::string metrics_textfile_dir;
  std::string metrics_file_sd_dir;
  std::uint64_t metrics_buckets = 64;
  std::uint64_t anomaly_skips_in_row = 10;
  std::uint64_t anomaly_floor_window = 100;
  double anomaly_underflow_jump = 0.25;
  double anomaly_stagnation_share = 0.5;
  double anomaly_spike_factor = 5;
  std::uint64_t anomaly_spike_window = 100;
  std::uint64_t anomaly_thrash_growths = 5;
  std::string job_name;
  bool plane = false;
  std::string rendezvous_host;  // "" none was given or known
  std::uint16_t rendezvous_port = 0;
  double plane_timeout = 10;
  double anomaly_silent_seconds = 60;
  LogLevel log = LogLevel::kWarn;
  std::vector<Setting> settings;  // in the table's order
};

// True, or false with *error saying which value was refused and why. *out is whole or untouched. Either way
// *notes gets what is worth a warning: names in the file that nothing reads.
bool read_configuration(const Environment& environment, Configuration* out, std::string* error,
                        std::vector<std::string>* notes);

// The parameters that settings and rule defaults give together; same contract.
bool resolve_scaler(const ScalerSettings& settings, ScalerParams* out, std::string* error);

// Choice parsers shared with the C API's strings; false for a name that is none.
bool parse_unscale(const std::string& name, UnscaleMode* out);
bool parse_divergence(const std::string& name, DivergencePolicy* out);
bool parse_released(const std::string& name, ReleasedPolicy* out);

// 32-bit digest of all that must be equal on every rank of an agreement.
std::uint32_t configuration_digest(const ScalerParams& params, const StepPolicy& policy);

}  // namespace stepgate::gate

#include "plugin/core/configuration.h"

#include <arpa/inet.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "collectives/core/decimal.h"
#include "plugin/core/config_file.h"
#include "plugin/core/config_table.h"
#include "plugin/core/label_text.h"
#include "plugin/core/plane/address.h"

namespace stepgate::gate {
namespace {

constexpr char kFileVariable[] = "STEPGATE_CONFIG";

bool is_secret(std::string_view name) {
  return name.find("PASSWORD") != std::string_view::npos || name.find("SECRET") != std::string_view::npos ||
         name.find("TOKEN") != std::string_view::npos;
}

// Reads values and keeps the first complaint; after one, the rest is left alone.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  const std::string& error() const { return error_; }

  // First of all: the values that the environment does not set.
  void file(const char* variable, std::vector<std::string>* notes) {
    const char* path = value(variable);
    std::string why;
    if (path == nullptr) return;
    if (!read_config_file(path, &file_, &why)) {
      error_ = refused_value(variable, path) + "; " + why;
    }
    *notes = file_.unknown;
  }

  // The environment, and the file behind it. Valid as long as this reader.
  Environment both() const {
    return [this](const char* name) {
      std::string origin;
      return look_up(name, &origin);
    };
  }

  std::vector<Setting> settings() const {
    std::vector<Setting> all;
    for (const ConfigEntry& e : config_table()) {
      std::string origin;
      const char* v = look_up(e.name, &origin);
      std::string shown = v == nullptr ? e.fallback : is_secret(e.name) ? "(hidden)" : v;
      all.push_back({e.name, std::move(shown), v == nullptr ? "default" : std::move(origin)});
    }
    return all;
  }

  // A label of the metrics page.
  void label(const char* name, std::string* out) {
    const char* v = value(name);
    if (v == nullptr) return;
    if (!is_label_text(v)) return refuse(name, v);
    *out = v;
  }

  void address(const char* name, std::string* out) {
    const char* v = value(name);
    if (v == nullptr) return;
    in_addr parsed{};
    if (std::strcmp(v, "localhost") != 0 && inet_pton(AF_INET, v, &parsed) != 1) return refuse(name, v);
    *out = v;
  }

  // What it names is looked at where it is used: a file that is not there costs the page, not the gate.
  void path(const char* name, std::string* out) {
    const char* v = value(name);
    if (v == nullptr) return;
    if (!is_label_text(v)) return refuse(name, v);
    *out = v;
  }

  void meeting_place(const char* name, std::string* host, std::uint16_t* port) {
    const char* v = value(name);
    if (v == nullptr) return;
    if (!is_label_text(v) || !plane::split_address(v, host, port)) refuse(name, v);
  }

  // The store of the job's framework, whose variables are not ours: what cannot be used is a note, never a
  // refusal. Kubernetes for one sets MASTER_PORT to a URL where a service is called "master".
  void store_host(const char* name, std::string* out, std::vector<std::string>* notes) {
    const char* v = value(name);
    std::uint16_t port = 0;
    if (v == nullptr) return;
    const bool good = is_label_text(v) && plane::split_address(std::string(v) + ":1", out, &port);
    if (!good) notes->push_back(unusable(name, v));
  }

  void store_port(const char* name, std::uint64_t high, std::uint64_t* out, std::vector<std::string>* notes) {
    const char* v = value(name);
    std::uint64_t port = 0;
    if (v == nullptr) return;
    if (!in_range(v, 1, high, &port)) return notes->push_back(unusable(name, v));
    *out = port;
  }

  void number(const char* name, double low, double high, bool open_low, std::optional<double>* out) {
    const char* v = value(name);
    if (v == nullptr) return;
    double x = 0;
    const auto [end, code] = std::from_chars(v, v + std::strlen(v), x);
    const bool inside = std::isfinite(x) && (open_low ? x > low : x >= low) && x <= high;
    if (code != std::errc() || *end != '\0' || !inside) return refuse(name, v);
    *out = x;
  }

  void number(const char* name, double low, double high, bool open_low, double* out) {
    std::optional<double> x;
    number(name, low, high, open_low, &x);
    if (x) *out = *x;
  }

  void integer(const char* name, std::uint64_t low, std::uint64_t high, std::optional<std::uint64_t>* out) {
    const char* v = value(name);
    if (v == nullptr) return;
    std::uint64_t x = 0;
    if (!in_range(v, low, high, &x)) return refuse(name, v);
    *out = x;
  }

  void integer(const char* name, std::uint64_t low, std::uint64_t high, std::uint64_t* out) {
    std::optional<std::uint64_t> x;
    integer(name, low, high, &x);
    if (x) *out = *x;
  }

  template <class T, std::size_t N>
  void choice(const char* name, const std::pair<const char*, T> (&choices)[N], T* out) {
    const char* v = value(name);
    if (v == nullptr) return;
    for (const auto& [word, meaning] : choices) {
      if (std::strcmp(word, v) == 0) {
        *out = meaning;
        return;
      }
    }
    refuse(name, v);
  }

  void rule(const char* name, std::optional<ScalerRule>* out) {
    const char* v = value(name);
    if (v == nullptr) return;
    ScalerRule r{};
    if (!parse_scaler_rule(v, &r)) return refuse(name, v);
    *out = r;
  }

 private:
  static bool in_range(const char* v, std::uint64_t low, std::uint64_t high, std::uint64_t* out) {
    const auto [end, code] = std::from_chars(v, v + std::strlen(v), *out);
    return code == std::errc() && *end == '\0' && *out >= low && *out <= high;
  }

  static std::string unusable(const char* name, const char* v) {
    return refused_value(name, v) + "; it does not say where rank 0 of the plane is";
  }

  // An empty variable counts as unset: launchers export names they have no value for.
  const char* look_up(const char* name, std::string* origin) const {
    *origin = "environment";
    const char* v = environment_(name);
    if (v != nullptr && *v != '\0') return v;
    const auto at = file_.values.find(std::string_view(name));
    if (at == file_.values.end() || at->second.text.empty()) return nullptr;
    *origin = at->second.where;
    return at->second.text.c_str();
  }

  const char* value(const char* name) const {
    std::string origin;
    return error_.empty() ? look_up(name, &origin) : nullptr;
  }

  void refuse(const char* name, const char* v) {
    std::string origin;
    look_up(name, &origin);
    if (origin != "environment") error_ = origin + ": ";
    error_ += refused_value(name, v);
  }

  const Environment& environment_;
  ConfigFile file_;
  std::string error_;
};

constexpr double kMaxFp32 = 0x1.fffffep+127;
constexpr double kHuge = std::numeric_limits<double>::max();
constexpr std::uint64_t kMaxInteger = std::numeric_limits<std::int32_t>::max();

constexpr std::pair<const char*, Mode> kModes[] = {
    {"off", Mode::kOff}, {"observe", Mode::kObserve}, {"enforce", Mode::kEnforce}};
constexpr std::pair<const char*, UnscaleMode> kUnscales[] = {
    {"deferred", UnscaleMode::kDeferred}, {"apply", UnscaleMode::kApply}, {"in_hook", UnscaleMode::kInHook}};
constexpr std::pair<const char*, ReleasedPolicy> kReleased[] = {{"skip", ReleasedPolicy::kSkip},
                                                                {"unguarded", ReleasedPolicy::kUnguarded}};
constexpr std::pair<const char*, DivergencePolicy> kDivergences[] = {{"report", DivergencePolicy::kReport},
                                                                     {"veto", DivergencePolicy::kVeto},
                                                                     {"error", DivergencePolicy::kError}};
constexpr std::pair<const char*, Attribution> kAttributions[] = {
    {"auto", Attribution::kAuto}, {"on", Attribution::kOn}, {"off", Attribution::kOff}};
constexpr std::pair<const char*, DeviceChoice> kDevices[] = {
    {"auto", DeviceChoice::kAuto}, {"host", DeviceChoice::kHost}, {"cuda", DeviceChoice::kCuda}};
constexpr std::pair<const char*, bool> kSwitch[] = {{"on", true}, {"off", false}};
constexpr std::pair<const char*, LogLevel> kLevels[] = {{"off", LogLevel::kOff},
                                                        {"error", LogLevel::kError},
                                                        {"warn", LogLevel::kWarn},
                                                        {"info", LogLevel::kInfo}};

void read_scaler(Reader& r, ScalerSettings* s) {
  r.rule("STEPGATE_RULE", &s->rule);
  r.number("STEPGATE_INITIAL_SCALE", 0, kMaxFp32, true, &s->initial_scale);
  r.number("STEPGATE_GROWTH", 1, kMaxFp32, true, &s->growth);
  r.number("STEPGATE_BACKOFF", 0, std::nextafter(1.0, 0.0), true, &s->backoff);
  r.integer("STEPGATE_INTERVAL", 1, kMaxInteger, &s->interval);
  r.integer("STEPGATE_HYSTERESIS", 1, kMaxInteger, &s->hysteresis);
  r.number("STEPGATE_MINIMUM_SCALE", 0, kMaxFp32, true, &s->minimum);
  r.number("STEPGATE_MAXIMUM_SCALE", 0, kMaxFp32, true, &s->maximum);
}

void read_step(Reader& r, Configuration* c) {
  r.choice("STEPGATE_MODE", kModes, &c->mode);
  r.number("STEPGATE_MAX_NORM", 0, kHuge, false, &c->max_norm);
  r.number("STEPGATE_SKIP_NORM", 0, kHuge, false, &c->skip_norm);
  r.choice("STEPGATE_UNSCALE", kUnscales, &c->unscale);
  r.choice("STEPGATE_DIVERGENCE", kDivergences, &c->divergence);
  r.choice("STEPGATE_RELEASED", kReleased, &c->released);
  r.choice("STEPGATE_ATTRIBUTION", kAttributions, &c->attribution);
  r.integer("STEPGATE_OBSERVE_MIN_COUNT", 1, kMaxInteger, &c->observe_min_count);
  r.integer("STEPGATE_OBSERVE_RANKS", 0, kMaxInteger, &c->observe_ranks);
  r.label("STEPGATE_OBSERVE_COMM", &c->observe_comm);
  r.choice("STEPGATE_DEVICE", kDevices, &c->device);
  r.number("STEPGATE_ACTIVATION_TIMEOUT", 0, 1e9, true, &c->activation_timeout_seconds);
}

void read_metrics(Reader& r, Configuration* c) {
  r.choice("STEPGATE_METRICS", kSwitch, &c->metrics);
  r.address("STEPGATE_METRICS_ADDR", &c->metrics_address);
  r.integer("STEPGATE_METRICS_PORT", 0, 65535, &c->metrics_port);
  r.path("STEPGATE_METRICS_AUTH_FILE", &c->metrics_auth_file);
  r.path("STEPGATE_METRICS_TLS_CERTIFICATE", &c->metrics_tls_certificate);
  r.path("STEPGATE_METRICS_TLS_KEY", &c->metrics_tls_key);
  r.path("STEPGATE_METRICS_TEXTFILE_DIR", &c->metrics_textfile_dir);
  r.path("STEPGATE_METRICS_FILE_SD_DIR", &c->metrics_file_sd_dir);
  r.integer("STEPGATE_METRICS_BUCKETS", 1, 4096, &c->metrics_buckets);
  r.integer("STEPGATE_ANOMALY_SKIPS_IN_ROW", 1, kMaxInteger, &c->anomaly_skips_in_row);
  r.integer("STEPGATE_ANOMALY_FLOOR_WINDOW", 1, kMaxInteger, &c->anomaly_floor_window);
  r.number("STEPGATE_ANOMALY_UNDERFLOW_JUMP", 0, 1, true, &c->anomaly_underflow_jump);
  r.number("STEPGATE_ANOMALY_STAGNATION_SHARE", 0, 1, true, &c->anomaly_stagnation_share);
  r.number("STEPGATE_ANOMALY_SPIKE_FACTOR", 1, kHuge, true, &c->anomaly_spike_factor);
  r.integer("STEPGATE_ANOMALY_SPIKE_WINDOW", 1, 1024, &c->anomaly_spike_window);
  r.integer("STEPGATE_ANOMALY_THRASH_GROWTHS", 1, kMaxInteger, &c->anomaly_thrash_growths);
  r.label("STEPGATE_JOB_NAME", &c->job_name);
  r.choice("STEPGATE_LOG", kLevels, &c->log);
}

// Where ranks meet: as told, else one above the port of the job's own store. Those two are not ours: they
// are looked at for the plane alone, and what they hold never costs the job its gate.
void read_plane(Reader& r, Configuration* c, std::vector<std::string>* notes) {
  r.choice("STEPGATE_PLANE", kSwitch, &c->plane);
  r.number("STEPGATE_PLANE_TIMEOUT", 0.2, 3600, false, &c->plane_timeout);
  r.number("STEPGATE_ANOMALY_SILENT_SECONDS", 0, kHuge, true, &c->anomaly_silent_seconds);
  r.meeting_place("STEPGATE_RENDEZVOUS", &c->rendezvous_host, &c->rendezvous_port);
  if (!c->plane || c->rendezvous_port != 0) return;
  std::string host;
  std::uint64_t port = 0;
  r.store_host("MASTER_ADDR", &host, notes);
  r.store_port("MASTER_PORT", 65534, &port, notes);
  if (host.empty() || port == 0) return;
  c->rendezvous_host = host;
  c->rendezvous_port = static_cast<std::uint16_t>(port + 1);
}

// A setting that the rule does not have; the variable is named too, for it may have come from there.
template <class T>
bool rule_lacks(const std::optional<T>& value, bool has, const ScalerParams& p, const char* what,
                const char* variable, std::string* error) {
  if (!value || has) return false;
  *error = std::string(what) + "=" + shortest_decimal(static_cast<double>(*value)) + " (" + variable +
           ") is refused: rule '" + scaler_rule_name(p.rule) + "' has none; allowed: unset, or another rule";
  return true;
}

bool has_foreign_setting(const ScalerSettings& s, const ScalerParams& p, std::string* error) {
  const ScalerRule r = p.rule;
  return rule_lacks(s.growth, rule_has_growth(r), p, "growth", "STEPGATE_GROWTH", error) ||
         rule_lacks(s.backoff, rule_has_backoff(r), p, "backoff", "STEPGATE_BACKOFF", error) ||
         rule_lacks(s.interval, rule_has_growth(r), p, "interval", "STEPGATE_INTERVAL", error) ||
         rule_lacks(s.hysteresis, rule_has_hysteresis(r), p, "hysteresis", "STEPGATE_HYSTERESIS", error) ||
         rule_lacks(s.minimum, rule_has_minimum(r), p, "minimum scale", "STEPGATE_MINIMUM_SCALE", error) ||
         rule_lacks(s.maximum, rule_has_maximum(r), p, "maximum scale", "STEPGATE_MAXIMUM_SCALE", error);
}

// All parameters with their values: what was refused is among them.
std::string describe(const ScalerParams& p) {
  return "initial scale=" + shortest_decimal(p.initial_scale) + ", growth=" + shortest_decimal(p.growth) +
         ", backoff=" + shortest_decimal(p.backoff) + ", interval=" + std::to_string(p.interval) +
         ", hysteresis=" + std::to_string(p.hysteresis) + ", minimum=" + shortest_decimal(p.minimum) +
         ", maximum=" + shortest_decimal(p.maximum);
}

template <class T, std::size_t N>
bool find_choice(const std::pair<const char*, T> (&choices)[N], const std::string& name, T* out) {
  for (const auto& [word, meaning] : choices) {
    if (name == word) {
      *out = meaning;
      return true;
    }
  }
  return false;
}

}  // namespace

bool read_configuration(const Environment& environment, Configuration* out, std::string* error,
                        std::vector<std::string>* notes) {
  Reader reader(environment);
  Configuration c;
  reader.file(kFileVariable, notes);
  read_step(reader, &c);
  read_scaler(reader, &c.scaler);
  read_metrics(reader, &c);
  read_plane(reader, &c, notes);
  *error = reader.error();
  if (error->empty()) read_identity(reader.both(), &c, error);
  ScalerParams params;
  if (error->empty()) resolve_scaler(c.scaler, &params, error);
  if (!error->empty()) return false;
  c.settings = reader.settings();
  *out = std::move(c);
  return true;
}

bool resolve_scaler(const ScalerSettings& s, ScalerParams* out, std::string* error) {
  ScalerParams p = default_params(s.rule.value_or(ScalerRule::kStepgate));
  if (has_foreign_setting(s, p, error)) return false;
  p.initial_scale = s.initial_scale.value_or(p.initial_scale);
  p.growth = s.growth.value_or(p.growth);
  p.backoff = s.backoff.value_or(p.backoff);
  p.interval = s.interval.value_or(p.interval);
  p.hysteresis = static_cast<std::uint32_t>(s.hysteresis.value_or(p.hysteresis));
  p.minimum = s.minimum.value_or(p.minimum);
  p.maximum = s.maximum.value_or(p.maximum);
  if (const char* wrong = invalid_params(p)) {
    *error = std::string("rule '") + scaler_rule_name(p.rule) + "': " + wrong + "; given: " + describe(p);
    return false;
  }
  *out = p;
  return true;
}

bool parse_unscale(const std::string& name, UnscaleMode* out) {
  return find_choice(kUnscales, name, out);
}

bool parse_divergence(const std::string& name, DivergencePolicy* out) {
  return find_choice(kDivergences, name, out);
}

bool parse_released(const std::string& name, ReleasedPolicy* out) {
  return find_choice(kReleased, name, out);
}

std::uint32_t configuration_digest(const ScalerParams& p, const StepPolicy& policy) {
  std::uint32_t h = 2166136261u;
  const auto add = [&h](const void* bytes, std::size_t size) {
    const auto* b = static_cast<const unsigned char*>(bytes);
    for (std::size_t i = 0; i < size; ++i) h = (h ^ b[i]) * 16777619u;
  };
  add(&p, sizeof p);
  add(&policy, sizeof policy);
  return h;
}

}  // namespace stepgate::gate

#include "plugin/core/gate_config.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "collectives/core/compute_type.h"
#include "collectives/core/decimal.h"
#include "plugin/core/label_text.h"

namespace stepgate::gate {
namespace {

constexpr std::size_t kMaxSegments = std::size_t{1} << 20;

bool bad(std::string* error, const std::string& name, const std::string& value, const std::string& allowed) {
  *error = name + "=" + value + " is refused; allowed: " + allowed;
  return false;
}

// Zero or NULL in the struct means: what the environment says.
void override_with(const stepgate_gate_config& c, ScalerSettings* s) {
  if (c.initial_scale != 0) s->initial_scale = c.initial_scale;
  if (c.growth != 0) s->growth = c.growth;
  if (c.backoff != 0) s->backoff = c.backoff;
  if (c.interval != 0) s->interval = c.interval;
  if (c.hysteresis != 0) s->hysteresis = c.hysteresis;
  if (c.minimum != 0) s->minimum = c.minimum;
  if (c.maximum != 0) s->maximum = c.maximum;
}

bool override_rule(const char* name, ScalerSettings* s, std::string* error) {
  if (name == nullptr) return true;
  ScalerRule rule{};
  if (!parse_scaler_rule(name, &rule)) {
    return bad(error, "rule", std::string("'") + name + "'",
               "stepgate, torch, apex, megatron, deepspeed, deepspeed-consecutive, static, none");
  }
  // The caller's rule comes without the parameters that the environment gave for another one.
  if (s->rule != rule) *s = ScalerSettings{};
  s->rule = rule;
  return true;
}

bool override_policy(const stepgate_gate_config& c, StepPolicy* p, std::string* error) {
  if (c.unscale != nullptr && !parse_unscale(c.unscale, &p->unscale)) {
    return bad(error, "unscale", std::string("'") + c.unscale + "'", "deferred, apply, in_hook");
  }
  if (c.divergence != nullptr && !parse_divergence(c.divergence, &p->divergence)) {
    return bad(error, "divergence", std::string("'") + c.divergence + "'", "report, veto, error");
  }
  if (c.released != nullptr && !parse_released(c.released, &p->released)) {
    return bad(error, "released", std::string("'") + c.released + "'", "skip, unguarded");
  }
  if (!std::isfinite(c.max_norm) || c.max_norm < 0) {
    return bad(error, "max_norm", shortest_decimal(c.max_norm), ">= 0, finite; 0 means no clipping");
  }
  if (!std::isfinite(c.skip_norm) || c.skip_norm < 0) {
    return bad(error, "skip_norm", shortest_decimal(c.skip_norm), ">= 0, finite; 0 means never");
  }
  if (c.max_norm > 0) p->max_norm = c.max_norm;
  if (c.skip_norm > 0) p->skip_norm = c.skip_norm;
  return true;
}

bool known_type(int t) {
  return t >= 0 && static_cast<std::uint32_t>(t) < kElementTypeCount;
}

bool fp8(int t) {
  return t == STEPGATE_FP8_E4M3 || t == STEPGATE_FP8_E5M2;
}

bool check_range(const stepgate_range& r, std::string* error) {
  if (r.name == nullptr || *r.name == '\0') return bad(error, "range name", "''", "a text that is not empty");
  if (!is_label_text(r.name)) return bad(error, "range name", "(unprintable)", kLabelAllowed);
  const std::string prefix = std::string("range '") + r.name + "': ";
  if (r.segment_count > kMaxSegments) {
    return bad(error, prefix + "segment_count", std::to_string(r.segment_count),
               "at most " + std::to_string(kMaxSegments));
  }
  if (!known_type(r.type) || fp8(r.type)) {
    return bad(error, prefix + "type", std::to_string(r.type), "STEPGATE_FP32, FP16, BF16, FP64");
  }
  if (r.compute_type != -1 && (!known_type(r.compute_type) || fp8(r.compute_type))) {
    return bad(error, prefix + "compute_type", std::to_string(r.compute_type),
               "-1, STEPGATE_FP32, FP16, BF16, FP64");
  }
  if (r.role != STEPGATE_ROLE_RESULT && r.role != STEPGATE_ROLE_INPUT) {
    return bad(error, prefix + "role", std::to_string(r.role), "STEPGATE_ROLE_RESULT, STEPGATE_ROLE_INPUT");
  }
  if ((r.flags & ~(STEPGATE_RANGE_NOT_FINAL | STEPGATE_RANGE_NOT_COUNTED)) != 0) {
    return bad(error, prefix + "flags", std::to_string(r.flags), "STEPGATE_RANGE_*");
  }
  if (r.set >= kMaxSets) return bad(error, prefix + "set", std::to_string(r.set), "0 to 7");
  if (!std::isfinite(r.factor)) return bad(error, prefix + "factor", shortest_decimal(r.factor), "finite");
  if (r.segments == nullptr && r.segment_count != 0) {
    return bad(error, prefix + "segments", "NULL", "an array of segment_count entries");
  }
  return true;
}

bool check_segment(const stepgate_range& r, std::size_t i, std::string* error) {
  const stepgate_segment& s = r.segments[i];
  const std::string where = std::string("range '") + r.name + "': segment " + std::to_string(i);
  if (s.data == nullptr && s.count != 0)
    return bad(error, where + " data", "NULL", "memory of count elements");
  if (s.name != nullptr && !is_label_text(s.name)) {
    return bad(error, where + " name", "(unprintable)", kLabelAllowed);
  }
  const std::size_t alignment = element_size(static_cast<ElementType>(r.type));
  if (reinterpret_cast<std::uintptr_t>(s.data) % alignment != 0) {
    return bad(error, where + " data", "a pointer not aligned to its elements",
               "alignment " + std::to_string(alignment));
  }
  if (s.count > (std::uint64_t{1} << 48))
    return bad(error, where + " count", std::to_string(s.count), "at most 2^48");
  return true;
}

}  // namespace

bool check_place(int world, int rank, std::string* error) {
  if (world < 1 || world > (1 << 21)) return bad(error, "world", std::to_string(world), "1 to 2097152");
  if (rank < 0 || rank >= world) {
    return bad(error, "rank", std::to_string(rank), "0 to world - 1 = " + std::to_string(world - 1));
  }
  return true;
}

bool gate_options(const stepgate_gate_config* config, const Configuration& c, GateOptions* out,
                  std::string* error) {
  GateOptions o;
  o.configuration = c;
  o.rank = static_cast<int>(c.rank);
  o.world = static_cast<int>(c.world);
  o.policy.max_norm = c.max_norm;
  o.policy.skip_norm = c.skip_norm;
  o.policy.unscale = c.unscale;
  o.policy.divergence = c.divergence;
  o.policy.released = c.released;
  ScalerSettings settings = c.scaler;
  if (config != nullptr) {
    if (config->name != nullptr && !is_label_text(config->name)) {
      return bad(error, "gate name", "(unprintable)", kLabelAllowed);
    }
    if (config->name != nullptr && *config->name != '\0') o.name = config->name;
    if (config->world != 0) {
      o.world = config->world;
      o.rank = config->rank;
    }
    if (!override_rule(config->rule, &settings, error)) return false;
    override_with(*config, &settings);
    if (!override_policy(*config, &o.policy, error)) return false;
  }
  if (!check_place(o.world, o.rank, error) || !resolve_scaler(settings, &o.params, error)) return false;
  o.policy.world = static_cast<std::uint32_t>(o.world);
  *out = std::move(o);
  return true;
}

bool range_spec(const stepgate_range& r, const ScalerParams& params, RangeSpec* out, std::string* error) {
  if (!check_range(r, error)) return false;
  RangeSpec spec;
  spec.name = r.name;
  spec.type = static_cast<ElementType>(r.type);
  spec.compute = r.compute_type == -1 ? default_compute_type(spec.type, scales_loss(params))
                                      : static_cast<ElementType>(r.compute_type);
  spec.result = r.role == STEPGATE_ROLE_RESULT;
  spec.is_final = (r.flags & STEPGATE_RANGE_NOT_FINAL) == 0;
  spec.counted = (r.flags & STEPGATE_RANGE_NOT_COUNTED) == 0;
  spec.set = r.set;
  spec.factor = r.factor == 0 ? 1 : r.factor;
  for (std::size_t i = 0; i < r.segment_count; ++i) {
    if (!check_segment(r, i, error)) return false;
    const stepgate_segment& s = r.segments[i];
    spec.segments.push_back({s.data, s.count});
    spec.parameters.push_back(s.name != nullptr ? s.name : spec.name + "[" + std::to_string(i) + "]");
  }
  *out = std::move(spec);
  return true;
}

}  // namespace stepgate::gate

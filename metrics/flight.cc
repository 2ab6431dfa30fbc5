#include "metrics/flight.h"

#include <nlohmann/json.hpp>

#include "metrics/page_file.h"

namespace stepgate::metrics {
namespace {

using Json = nlohmann::ordered_json;

void append(const Json& record, std::string* out) {
  // Names come from the job: what is no UTF-8 is replaced, not thrown at.
  *out += record.dump(-1, ' ', false, Json::error_handler_t::replace);
  *out += '\n';
}

template <std::size_t N>
Json counts(const std::array<const char*, N>& names, const std::array<std::uint64_t, N>& values) {
  Json out = Json::object();
  for (std::size_t i = 0; i < N; ++i) {
    if (values[i] != 0) out[names[i]] = values[i];
  }
  return out;
}

Json gate_record(const Flight& f) {
  return {{"record", "gate"},
          {"version", f.who.version},
          {"gate", f.who.gate},
          {"rank", f.who.rank},
          {"world", f.who.world},
          {"host", f.who.host},
          {"job_name", f.who.job_name},
          {"run_id", f.who.run_id},
          {"device", f.who.device},
          {"nccl_version", f.who.nccl_version},
          {"rule", scaler_rule_name(f.params.rule)},
          {"written_seconds", f.written_seconds},
          {"enforcing", f.enforcing},
          {"generation", f.generation},
          {"steps", f.steps.size()},
          {"steps_lost", f.lost},
          {"ranges_missing", f.counters.ranges_missing},
          {"ranges_rescanned", f.counters.ranges_rescanned},
          {"errors", counts(kStageNames, f.counters.plugin_errors)},
          {"refused", counts(kRefuseReasonNames, f.counters.enforce_refused)},
          {"released", counts(kReleaseReasonNames, f.counters.enforce_released)}};
}

// A rank, or why there is none to name.
Json blamed(std::int32_t offender) {
  switch (offender) {
    case kOffenderReduction: return "reduction";
    case kOffenderSeveral: return "several";
    case kOffenderUnknown: return nullptr;
    default: return offender;
  }
}

Json step_record(const StepRecord& r) {
  const Decision& d = r.decision;
  Json j = {{"record", "step"},
            {"step", r.step},
            {"set", r.set},
            {"time_seconds", r.timestamp_seconds},
            {"skip", d.skip != 0},
            {"reason", reason_name(d.reason)},
            {"overflow", d.overflow != 0},
            {"blamed", blamed(d.offender)},
            {"norm", d.skip != 0 ? Json(nullptr) : Json(d.norm)},
            {"clip", d.clip},
            {"scale", d.scale},
            {"next_scale", r.scaler.scale},
            {"growth_tracker", r.scaler.growth_tracker},
            {"hysteresis_left", r.scaler.hysteresis_left},
            {"multiplier", d.multiplier},
            {"elements", r.sum_elements},
            {"inf", r.sum_inf},
            {"nan", r.sum_nan},
            {"sent_inf", r.sum_local_inf},
            {"sent_nan", r.sum_local_nan},
            {"own_sent_inf", r.local_inf},
            {"own_sent_nan", r.local_nan},
            {"own_abs_max", r.local_sum.abs_max},
            {"scan_seconds", r.scan_seconds},
            {"agreement_seconds", r.agreement_seconds}};
  if (d.diverged != 0) j["odd_rank"] = d.odd_rank >= 0 ? Json(d.odd_rank) : Json(nullptr);
  if (d.released != 0) {
    j["released"] = kReleaseReasonNames[static_cast<std::size_t>(r.release_cause)];
  }
  return j;
}

Json range_record(const std::string& name, const RangeRecord& r) {
  return {{"record", "range"},
          {"range", name},
          {"step", r.step},
          {"phase", r.phase == static_cast<std::uint32_t>(ScanPhase::kLocal) ? "local" : "reduced"},
          {"elements", r.stats.elements},
          {"inf", r.stats.inf},
          {"nan", r.stats.nan},
          {"zeros", r.stats.zeros},
          {"subnormals", r.stats.subnormals},
          {"overranges", r.stats.overranges},
          {"abs_max", r.stats.abs_max},
          {"sum_squares", r.stats.sum_squares}};
}

Json offender_record(const FlightOffender& o, int rank) {
  return {{"record", "offender"},     {"step", o.step}, {"rank", rank}, {"range", o.range},
          {"parameter", o.parameter}, {"inf", o.inf},   {"nan", o.nan}};
}

}  // namespace

std::string flight_lines(const Flight& f) {
  std::string out;
  append(gate_record(f), &out);
  for (const StepRecord& r : f.steps) append(step_record(r), &out);
  for (const auto& [name, r] : f.ranges) append(range_record(name, r), &out);
  for (const FlightOffender& o : f.offenders) append(offender_record(o, f.who.rank), &out);
  return out;
}

bool write_flight(const Flight& f, const std::string& path, std::string* error) {
  HeldFile held;
  return replace_file(path, flight_lines(f), &held, error);
}

}  // namespace stepgate::metrics

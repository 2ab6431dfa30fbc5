#include "plugin/core/api.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <type_traits>

#include "plugin/core/gate_config.h"
#include "plugin/core/last_error.h"

namespace stepgate::gate {
namespace {

// The one pointer that C functions without a context need.
Process* process = nullptr;

stepgate_status null_argument(const char* function, const char* what) {
  return fail(STEPGATE_INVALID, std::string(function) + ": " + what + " is NULL");
}

// Runs body(gate) for a live handle; turns everything thrown into a status.
template <class Body>
stepgate_status with_gate(const char* function, stepgate_gate* handle, Body body) noexcept {
  try {
    if (process->forked()) {
      return fail(STEPGATE_FAILED,
                  std::string(function) + ": this process was forked; the gate lives in its parent");
    }
    auto* gate = reinterpret_cast<Gate*>(handle);
    if (gate == nullptr) return null_argument(function, "gate");
    if (!process->owns(gate)) return fail(STEPGATE_INVALID, std::string(function) + ": not a live gate");
    return body(*gate);
  } catch (const std::exception& e) {
    return fail(STEPGATE_FAILED, std::string(function) + ": " + e.what());
  } catch (...) {
    return fail(STEPGATE_FAILED, std::string(function) + ": unknown failure");
  }
}

// Sizes that a struct has had in some version of the API. When one grows, its former size joins here and the
// new fields read as zero.
template <class T>
bool known_size(const T* given) {
  return given->size == sizeof(T);
}

template <>
bool known_size(const stepgate_decision* given) {
  return given->size == sizeof *given || given->size == offsetof(stepgate_decision, odd_rank);
}

template <>
bool known_size(const stepgate_gate_config* given) {
  return given->size == sizeof *given || given->size == offsetof(stepgate_gate_config, released);
}

// A caller's struct in the current layout. False for a size that no version has had.
template <class T>
bool take_struct(const T* given, T* out) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (!known_size(given)) return false;
  std::memset(static_cast<void*>(out), 0, sizeof(T));
  std::memcpy(static_cast<void*>(out), given, given->size);
  return true;
}

// Writes as much as the caller has room for and keeps its size.
template <class T>
void give_struct(const T& full, T* out) {
  const std::size_t size = out->size;
  std::memcpy(static_cast<void*>(out), &full, size);
  out->size = size;
}

stepgate_status bad_size(const char* function, std::size_t given, std::size_t known) {
  return fail(STEPGATE_INVALID, std::string(function) + ": struct size " + std::to_string(given) +
                                    "; allowed: " + std::to_string(known) + " (set it to sizeof)");
}

constexpr std::size_t kLongestList = std::max<std::size_t>(kRingRecords, plane::kBookOffenders);

// Writes structs of the caller's own size into an array with that stride.
template <class T, class Read>
stepgate_status give_array(const char* function, T* list, std::size_t* count, Read read) {
  if (list == nullptr || count == nullptr) return null_argument(function, "list or count");
  if (!known_size(list)) return bad_size(function, list->size, sizeof(T));
  const std::size_t stride = list->size;
  *count = std::min(*count, kLongestList);  // no list of the plugin's is longer
  std::vector<T> full(*count);
  const stepgate_status status = read(full.data());
  for (std::size_t i = 0; i < *count; ++i) {
    full[i].size = stride;
    std::memcpy(reinterpret_cast<char*>(list) + i * stride, &full[i], stride);
  }
  return status;
}

stepgate_status metrics_url(char* buffer, std::size_t capacity) {
  try {
    if (buffer == nullptr) return null_argument("stepgate_metrics_url", "buffer");
    const std::string url = process->forked() ? std::string() : process->metrics_url();
    if (url.size() + 1 > capacity) {
      return fail(STEPGATE_INVALID, "stepgate_metrics_url: capacity " + std::to_string(capacity) +
                                        "; needed: " + std::to_string(url.size() + 1));
    }
    std::memcpy(buffer, url.c_str(), url.size() + 1);
    return STEPGATE_OK;
  } catch (...) {
    return fail(STEPGATE_FAILED, "stepgate_metrics_url: out of memory");
  }
}

stepgate_status gate_create(const stepgate_gate_config* config, stepgate_gate** out) {
  try {
    if (out == nullptr) return null_argument("stepgate_gate_create", "gate");
    if (process->forked())
      return fail(STEPGATE_FAILED, "stepgate_gate_create: this process was forked after start-up");
    stepgate_gate_config full;
    if (config != nullptr && !take_struct(config, &full)) {
      return bad_size("stepgate_gate_create", config->size, sizeof full);
    }
    Gate* gate = nullptr;
    const stepgate_status status = process->create_gate(config != nullptr ? &full : nullptr, &gate);
    if (status == STEPGATE_OK) *out = reinterpret_cast<stepgate_gate*>(gate);
    return status;
  } catch (const std::exception& e) {
    return fail(STEPGATE_FAILED, std::string("stepgate_gate_create: ") + e.what());
  } catch (...) {
    return fail(STEPGATE_FAILED, "stepgate_gate_create: unknown failure");
  }
}

stepgate_status gate_destroy(stepgate_gate* gate) {
  if (gate == nullptr) return STEPGATE_OK;
  return with_gate("stepgate_gate_destroy", gate, [](Gate& g) { return process->destroy_gate(&g); });
}

stepgate_status add_group(stepgate_gate* gate, void* comm, std::uint32_t flags) {
  return with_gate("stepgate_add_group", gate, [&](Gate& g) {
    if (comm == nullptr) return null_argument("stepgate_add_group", "comm");
    if (flags != 0)
      return fail(STEPGATE_INVALID, "stepgate_add_group: flags " + std::to_string(flags) + "; allowed: 0");
    return g.add_group(static_cast<ncclComm_t>(comm));
  });
}

stepgate_status remove_group(stepgate_gate* gate, void* comm) {
  return with_gate("stepgate_remove_group", gate,
                   [&](Gate& g) { return g.remove_group(static_cast<ncclComm_t>(comm)); });
}

stepgate_status declare_range(stepgate_gate* gate, const stepgate_range* range, std::uint32_t* id) {
  return with_gate("stepgate_declare_range", gate, [&](Gate& g) {
    if (range == nullptr || id == nullptr) return null_argument("stepgate_declare_range", "range or id");
    stepgate_range full;
    if (!take_struct(range, &full)) return bad_size("stepgate_declare_range", range->size, sizeof full);
    RangeSpec spec;
    std::string error;
    if (!range_spec(full, g.scaler_params(), &spec, &error))
      return fail(STEPGATE_INVALID, "stepgate_declare_range: " + error);
    return process->declare_range(g, std::move(spec), id);
  });
}

stepgate_status retire_range(stepgate_gate* gate, std::uint32_t id) {
  return with_gate("stepgate_retire_range", gate, [&](Gate& g) { return process->retire_range(g, id); });
}

stepgate_status retire_all(stepgate_gate* gate) {
  return with_gate("stepgate_retire_all", gate, [](Gate& g) { return process->retire_all(g); });
}

stepgate_status range_absent(stepgate_gate* gate, std::uint32_t id, int absent) {
  return with_gate("stepgate_range_absent", gate, [&](Gate& g) { return g.range_absent(id, absent != 0); });
}

// What a call that begins or ends an agreement came to: a rank without one observes. A call that was wrong
// says nothing.
stepgate_status agreed(const Gate& g, stepgate_status status) noexcept {
  const bool said = status != STEPGATE_INVALID && status != STEPGATE_INACTIVE;
  process->agreements_changed(said && !g.enforcing());
  return status;
}

stepgate_status enforce_summarize(stepgate_gate* gate, void* stream, double* fields) {
  return with_gate("stepgate_enforce_summarize", gate, [&](Gate& g) {
    if (fields == nullptr) return null_argument("stepgate_enforce_summarize", "fields");
    return g.enforce_summarize(stream, fields);
  });
}

stepgate_status enforce_decide(stepgate_gate* gate, void* stream, const double* fields) {
  return with_gate("stepgate_enforce_decide", gate, [&](Gate& g) {
    if (fields == nullptr) return null_argument("stepgate_enforce_decide", "fields");
    return agreed(g, g.enforce_decide(stream, fields));
  });
}

stepgate_status enforce_begin(stepgate_gate* gate, void* stream) {
  return with_gate("stepgate_enforce_begin", gate,
                   [&](Gate& g) { return agreed(g, g.enforce_begin(stream)); });
}

stepgate_status enforce_end(stepgate_gate* gate, void* stream) {
  return with_gate("stepgate_enforce_end", gate, [&](Gate& g) { return agreed(g, g.enforce_end(stream)); });
}

stepgate_status step_begin(stepgate_gate* gate, void* stream) {
  return with_gate("stepgate_step_begin", gate, [&](Gate& g) { return g.step_begin(stream); });
}

stepgate_status scale(stepgate_gate* gate, double* out) {
  return with_gate("stepgate_scale", gate, [&](Gate& g) {
    if (out == nullptr) return null_argument("stepgate_scale", "scale");
    return g.scale(out);
  });
}

stepgate_status veto(stepgate_gate* gate, void* stream) {
  return with_gate("stepgate_veto", gate, [&](Gate& g) { return g.veto(stream); });
}

stepgate_status summarize(stepgate_gate* gate, std::uint32_t set, void* stream, double* summary) {
  return with_gate("stepgate_summarize", gate, [&](Gate& g) {
    if (summary == nullptr) return null_argument("stepgate_summarize", "summary");
    return g.summarize(set, stream, summary);
  });
}

stepgate_status decide(stepgate_gate* gate, std::uint32_t set, void* stream) {
  return with_gate("stepgate_decide", gate, [&](Gate& g) { return g.decide(set, stream); });
}

stepgate_status scaler_update(stepgate_gate* gate, void* stream) {
  return with_gate("stepgate_scaler_update", gate, [&](Gate& g) { return g.scaler_update(stream); });
}

stepgate_status step_end(stepgate_gate* gate, std::uint32_t set, void* stream) {
  return with_gate("stepgate_step_end", gate, [&](Gate& g) { return g.step_end(set, stream); });
}

stepgate_status step_wait(stepgate_gate* gate, std::uint32_t set, stepgate_decision* decision) {
  return with_gate("stepgate_step_wait", gate, [&](Gate& g) {
    if (decision == nullptr) return g.step_wait(set, nullptr);
    if (!known_size(decision)) return bad_size("stepgate_step_wait", decision->size, sizeof *decision);
    stepgate_decision full{};
    full.skip = 1;
    const stepgate_status status = g.step_wait(set, &full);
    if (status != STEPGATE_INVALID) give_struct(full, decision);
    return status;
  });
}

stepgate_status apply(stepgate_gate* gate, std::uint32_t set, void* stream) {
  return with_gate("stepgate_apply", gate, [&](Gate& g) { return g.apply(set, stream); });
}

static_assert(sizeof(stepgate_outputs_t) == sizeof(Outputs),
              "stepgate_outputs hands the block's own memory out");

stepgate_status outputs(stepgate_gate* gate, std::uint32_t set, const stepgate_outputs_t** out) {
  return with_gate("stepgate_outputs", gate, [&](Gate& g) {
    if (out == nullptr) return null_argument("stepgate_outputs", "outputs");
    const Outputs* block = nullptr;
    const stepgate_status status = g.outputs(set, &block);
    if (status == STEPGATE_OK) *out = reinterpret_cast<const stepgate_outputs_t*>(block);
    return status;
  });
}

stepgate_status set_scale(stepgate_gate* gate, double scale_value) {
  return with_gate("stepgate_set_scale", gate, [&](Gate& g) { return g.set_scale(scale_value); });
}

// What looks at the job's memory; not where the plugin is off.
template <class Call>
stepgate_status while_on(const char* function, stepgate_gate* gate, Call call) {
  return with_gate(function, gate, [&](Gate& g) {
    if (process->off())
      return fail(STEPGATE_OFF, std::string(function) + ": StepGate is off in this process");
    return call(g);
  });
}

stepgate_status external_scale(stepgate_gate* gate, const float* scale_pointer) {
  return while_on("stepgate_external_scale", gate,
                  [&](Gate& g) { return process->external_scale(g, scale_pointer); });
}

stepgate_status observe(stepgate_gate* gate, const char* name, const void* data, std::uint64_t count,
                        stepgate_type type, int phase, void* stream) {
  return while_on("stepgate_observe", gate,
                  [&](Gate& g) { return g.observations().observe(name, data, count, type, phase, stream); });
}

stepgate_status observe_update(stepgate_gate* gate, const char* name, const void* before, const void* after,
                               const void* update, std::uint64_t count, stepgate_type type, void* stream) {
  return while_on("stepgate_observe_update", gate, [&](Gate& g) {
    return g.observations().observe_update(name, before, after, update, count, type, stream);
  });
}

stepgate_status offenders(stepgate_gate* gate, stepgate_offender* list, std::size_t* count) {
  return with_gate("stepgate_offenders", gate, [&](Gate& g) {
    return give_array("stepgate_offenders", list, count,
                      [&](stepgate_offender* full) { return g.offenders(full, count); });
  });
}

stepgate_status job_offenders(stepgate_gate* gate, std::uint64_t step, stepgate_offender* list,
                              std::size_t* count) {
  return with_gate("stepgate_job_offenders", gate, [&](Gate& g) {
    return give_array("stepgate_job_offenders", list, count,
                      [&](stepgate_offender* full) { return process->job_offenders(g, step, full, count); });
  });
}

stepgate_status history(stepgate_gate* gate, std::uint64_t after, stepgate_decision* list,
                        std::size_t* count) {
  return with_gate("stepgate_history", gate, [&](Gate& g) {
    return give_array("stepgate_history", list, count,
                      [&](stepgate_decision* full) { return g.history(after, full, count); });
  });
}

stepgate_status state(stepgate_gate* gate, stepgate_scaler_info* info) {
  return with_gate("stepgate_state", gate, [&](Gate& g) {
    if (info == nullptr) return null_argument("stepgate_state", "info");
    if (!known_size(info)) return bad_size("stepgate_state", info->size, sizeof *info);
    stepgate_scaler_info full{};
    const stepgate_status status = g.state(&full);
    give_struct(full, info);
    return status;
  });
}

stepgate_status dump(stepgate_gate* gate, const char* path) {
  return with_gate("stepgate_dump", gate, [&](Gate& g) {
    if (path == nullptr) return null_argument("stepgate_dump", "path");
    if (*path == '\0') return fail(STEPGATE_INVALID, "stepgate_dump: path ''; allowed: a file's path");
    return g.dump(path);
  });
}

stepgate_status state_save(stepgate_gate* gate, void* buffer, std::size_t* bytes) {
  return with_gate("stepgate_state_save", gate, [&](Gate& g) {
    if (bytes == nullptr) return null_argument("stepgate_state_save", "bytes");
    return g.state_save(buffer, bytes);
  });
}

stepgate_status state_load(stepgate_gate* gate, const void* blob, std::size_t bytes) {
  return with_gate("stepgate_state_load", gate, [&](Gate& g) {
    if (blob == nullptr) return null_argument("stepgate_state_load", "blob");
    return g.state_load(blob, bytes);
  });
}

stepgate_status reset(stepgate_gate* gate, std::uint64_t generation) {
  return with_gate("stepgate_reset", gate, [&](Gate& g) { return agreed(g, g.reset(generation)); });
}

stepgate_status reset_world(stepgate_gate* gate, std::uint64_t generation, int world, int rank) {
  return with_gate("stepgate_reset_world", gate, [&](Gate& g) {
    std::string error;
    if (!check_place(world, rank, &error)) return fail(STEPGATE_INVALID, "stepgate_reset_world: " + error);
    return agreed(g, g.reset_world(generation, world, rank));
  });
}

}  // namespace

void set_api_process(Process* p) noexcept {
  process = p;
}

void fill_api(CoreTable* table) noexcept {
#define STEPGATE_FILL(name, parameters, arguments) table->name = &name;
  STEPGATE_FORWARDED_FUNCTIONS(STEPGATE_FILL)
#undef STEPGATE_FILL
}

}  // namespace stepgate::gate

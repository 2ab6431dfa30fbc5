/* StepGate: the header-only client (C99, C++).
 *
 * For: jobs that use a gate where the plugin is there and run on without it. Nothing to link: every
 * stepgate_client_X() looks stepgate_X() up in the process (preloaded or linked plugin) on first use.
 *
 *   if (stepgate_client_load() == STEPGATE_OK) { ... stepgate_client_gate_create(NULL, &gate); ... }
 *
 * Contract: as stepgate.h says for the function of that name. Where no plugin answers, every call
 * returns STEPGATE_NO_PLUGIN and leaves what its pointers point to untouched, except
 * stepgate_client_enforce_summarize(), which hands out zeros: the other ranks then count too few
 * contributors and refuse together. stepgate_client_enforce_begin() cannot tell the others anything:
 * use it only where the launcher guarantees the plugin on every rank.
 * Thread: any. Order: none; a plugin loaded later (RTLD_GLOBAL) is found by the next call. Lock:
 * none; one atomic pointer per function and translation unit. Ownership: as stepgate.h says.
 */
#ifndef STEPGATE_CLIENT_H
#define STEPGATE_CLIENT_H
/* NOLINTBEGIN(modernize-use-nullptr): C99 as well */

#include <dlfcn.h>
#include <string.h>

#include "stepgate/stepgate.h"

/* RTLD_DEFAULT, which the C headers hide without _GNU_SOURCE. */
#define STEPGATE_CLIENT_DEFAULT_HANDLE ((void*)0)

static inline void* stepgate_client_symbol(void** slot, const char* name) {
  void* found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
  if (found == NULL) {
    found = dlsym(STEPGATE_CLIENT_DEFAULT_HANDLE, name);
    if (found != NULL) __atomic_store_n(slot, found, __ATOMIC_RELEASE);
  }
  return found;
}

/* STEPGATE_OK: a plugin answers and speaks this header's version. STEPGATE_UNSUPPORTED: it is older.
 * STEPGATE_NO_PLUGIN: none is here. */
static inline stepgate_status stepgate_client_load(void) {
  static void* slot;
  int (*version)(void) = NULL;
  void* symbol = stepgate_client_symbol(&slot, "stepgate_api_version");
  if (symbol == NULL) return STEPGATE_NO_PLUGIN;
  memcpy(&version, &symbol, sizeof(version));
  return version() >= STEPGATE_API_VERSION ? STEPGATE_OK : STEPGATE_UNSUPPORTED;
}

/* One wrapper. Object and function pointers have one size here, and memcpy is the conversion that
 * both languages allow. */
#define STEPGATE_CLIENT_FUNCTION(result, name, params, args, otherwise) \
  static inline result stepgate_client_##name params {                  \
    static void* slot_;                                                 \
    result(*function_) params = NULL;                                   \
    void* symbol_ = stepgate_client_symbol(&slot_, "stepgate_" #name);  \
    if (symbol_ == NULL) return otherwise;                              \
    memcpy(&function_, &symbol_, sizeof(function_));                    \
    return function_ args;                                              \
  }
#define STEPGATE_CLIENT_CALL(name, params, args) \
  STEPGATE_CLIENT_FUNCTION(stepgate_status, name, params, args, STEPGATE_NO_PLUGIN)

/* library */
STEPGATE_CLIENT_FUNCTION(int, api_version, (void), (), 0)
STEPGATE_CLIENT_FUNCTION(const char*, version, (void), (), "")
STEPGATE_CLIENT_FUNCTION(const char*, status_string, (stepgate_status status), (status),
                         status == STEPGATE_NO_PLUGIN ? "no plugin" : "unknown")
STEPGATE_CLIENT_FUNCTION(const char*, last_error, (void), (), "")
STEPGATE_CLIENT_CALL(metrics_url, (char* buffer, size_t capacity), (buffer, capacity))

/* gates */
STEPGATE_CLIENT_CALL(gate_create, (const stepgate_gate_config* config, stepgate_gate** gate), (config, gate))
STEPGATE_CLIENT_CALL(gate_destroy, (stepgate_gate * gate), (gate))
STEPGATE_CLIENT_CALL(add_group, (stepgate_gate * gate, void* comm, uint32_t flags), (gate, comm, flags))
STEPGATE_CLIENT_CALL(remove_group, (stepgate_gate * gate, void* comm), (gate, comm))

/* ranges */
STEPGATE_CLIENT_CALL(declare_range, (stepgate_gate * gate, const stepgate_range* range, uint32_t* id),
                     (gate, range, id))
STEPGATE_CLIENT_CALL(retire_range, (stepgate_gate * gate, uint32_t id), (gate, id))
STEPGATE_CLIENT_CALL(retire_all, (stepgate_gate * gate), (gate))
STEPGATE_CLIENT_CALL(range_absent, (stepgate_gate * gate, uint32_t id, int absent), (gate, id, absent))

/* activation */
static inline stepgate_status stepgate_client_enforce_summarize(stepgate_gate* gate, void* stream,
                                                                double* fields) {
  static void* slot;
  stepgate_status (*function)(stepgate_gate*, void*, double*) = NULL;
  void* symbol = stepgate_client_symbol(&slot, "stepgate_enforce_summarize");
  if (symbol == NULL) {
    if (fields != NULL) memset(fields, 0, STEPGATE_ACTIVATION_FIELDS * sizeof(*fields));
    return STEPGATE_NO_PLUGIN;
  }
  memcpy(&function, &symbol, sizeof(function));
  return function(gate, stream, fields);
}
STEPGATE_CLIENT_CALL(enforce_decide, (stepgate_gate * gate, void* stream, const double* fields),
                     (gate, stream, fields))
STEPGATE_CLIENT_CALL(enforce_begin, (stepgate_gate * gate, void* stream), (gate, stream))
STEPGATE_CLIENT_CALL(enforce_end, (stepgate_gate * gate, void* stream), (gate, stream))

/* one step */
STEPGATE_CLIENT_CALL(step_begin, (stepgate_gate * gate, void* stream), (gate, stream))
STEPGATE_CLIENT_CALL(scale, (stepgate_gate * gate, double* scale), (gate, scale))
STEPGATE_CLIENT_CALL(veto, (stepgate_gate * gate, void* stream), (gate, stream))
STEPGATE_CLIENT_CALL(summarize, (stepgate_gate * gate, uint32_t set, void* stream, double* summary),
                     (gate, set, stream, summary))
STEPGATE_CLIENT_CALL(decide, (stepgate_gate * gate, uint32_t set, void* stream), (gate, set, stream))
STEPGATE_CLIENT_CALL(scaler_update, (stepgate_gate * gate, void* stream), (gate, stream))
STEPGATE_CLIENT_CALL(step_end, (stepgate_gate * gate, uint32_t set, void* stream), (gate, set, stream))
STEPGATE_CLIENT_CALL(step_wait, (stepgate_gate * gate, uint32_t set, stepgate_decision* decision),
                     (gate, set, decision))
STEPGATE_CLIENT_CALL(apply, (stepgate_gate * gate, uint32_t set, void* stream), (gate, set, stream))
STEPGATE_CLIENT_CALL(outputs, (stepgate_gate * gate, uint32_t set, const stepgate_outputs_t** outputs),
                     (gate, set, outputs))

/* the loss scale from outside */
STEPGATE_CLIENT_CALL(set_scale, (stepgate_gate * gate, double scale), (gate, scale))
STEPGATE_CLIENT_CALL(external_scale, (stepgate_gate * gate, const float* scale), (gate, scale))

/* observations beyond gradients */
STEPGATE_CLIENT_CALL(observe,
                     (stepgate_gate * gate, const char* name, const void* data, uint64_t count,
                      stepgate_type type, int phase, void* stream),
                     (gate, name, data, count, type, phase, stream))
STEPGATE_CLIENT_CALL(observe_update,
                     (stepgate_gate * gate, const char* name, const void* before, const void* after,
                      const void* update, uint64_t count, stepgate_type type, void* stream),
                     (gate, name, before, after, update, count, type, stream))

/* what happened */
STEPGATE_CLIENT_CALL(offenders, (stepgate_gate * gate, stepgate_offender* list, size_t* count),
                     (gate, list, count))
STEPGATE_CLIENT_CALL(job_offenders,
                     (stepgate_gate * gate, uint64_t step, stepgate_offender* list, size_t* count),
                     (gate, step, list, count))
STEPGATE_CLIENT_CALL(history, (stepgate_gate * gate, uint64_t after, stepgate_decision* list, size_t* count),
                     (gate, after, list, count))
STEPGATE_CLIENT_CALL(state, (stepgate_gate * gate, stepgate_scaler_info* info), (gate, info))
STEPGATE_CLIENT_CALL(dump, (stepgate_gate * gate, const char* path), (gate, path))

/* checkpoints and elastic restarts */
STEPGATE_CLIENT_CALL(state_save, (stepgate_gate * gate, void* buffer, size_t* bytes), (gate, buffer, bytes))
STEPGATE_CLIENT_CALL(state_load, (stepgate_gate * gate, const void* blob, size_t bytes), (gate, blob, bytes))
STEPGATE_CLIENT_CALL(reset, (stepgate_gate * gate, uint64_t generation), (gate, generation))
STEPGATE_CLIENT_CALL(reset_world, (stepgate_gate * gate, uint64_t generation, int world, int rank),
                     (gate, generation, world, rank))

#undef STEPGATE_CLIENT_CALL
#undef STEPGATE_CLIENT_FUNCTION

/* NOLINTEND(modernize-use-nullptr) */
#endif /* STEPGATE_CLIENT_H */

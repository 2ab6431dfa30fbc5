/* A plain C99 program that opens the built libstepgate.so and calls every function of its header:
 *
 *   every_function LIBRARY
 *
 * Functions of a later release must say so; the others must do their job on a gate of one rank. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stepgate/stepgate.h"

static int failures;
static const char* (*last_error)(void);

static void expect(int condition, const char* what) {
  if (condition) return;
  ++failures;
  printf("FAILED: %s (last error: %s)\n", what, last_error != NULL ? last_error() : "");
}

static void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) {
    printf("FAILED: %s is not exported\n", name);
    exit(1);
  }
  return found;
}

/* POSIX lets data and function pointers convert this way. */
#define FUNCTION(result, name, parameters)         \
  result(*name) parameters;                        \
  {                                                \
    void* at = symbol(library, "stepgate_" #name); \
    memcpy(&name, &at, sizeof name);               \
  }

static void call_library(void* library) {
  FUNCTION(int, api_version, (void))
  FUNCTION(const char*, version, (void))
  FUNCTION(const char*, status_string, (stepgate_status))
  FUNCTION(stepgate_status, metrics_url, (char*, size_t))
  char url[200];
  expect(api_version() == STEPGATE_API_VERSION, "api_version");
  expect(strcmp(version(), "0.1.0") == 0, "version");
  expect(strcmp(status_string(STEPGATE_OK), "ok") == 0, "status_string(OK)");
  expect(strcmp(status_string(STEPGATE_OFF), "off") == 0, "status_string(OFF)");
  expect(status_string(-1) != NULL && status_string(12) != NULL, "status_string of no status");
  expect(metrics_url(url, sizeof url) == STEPGATE_OK && url[0] == '\0', "metrics_url: no page");
  expect(metrics_url(url, 0) == STEPGATE_INVALID, "metrics_url(capacity 0)");
  expect(metrics_url(NULL, 10) == STEPGATE_INVALID, "metrics_url(NULL)");
}

static stepgate_gate* create(void* library) {
  FUNCTION(stepgate_status, gate_create, (const stepgate_gate_config*, stepgate_gate**))
  FUNCTION(stepgate_status, gate_destroy, (stepgate_gate*))
  stepgate_gate_config config;
  stepgate_gate *gate = NULL, *other = NULL;
  memset(&config, 0, sizeof config);
  expect(gate_create(&config, &gate) == STEPGATE_INVALID && gate == NULL, "gate_create: size 0");
  config.size = sizeof config + 8;
  expect(gate_create(&config, &gate) == STEPGATE_INVALID && gate == NULL, "gate_create: larger size");
  config.size = sizeof config;
  expect(gate_create(&config, NULL) == STEPGATE_INVALID, "gate_create: nowhere to put it");
  config.rule = "torch";
  config.initial_scale = 256;
  config.unscale = "apply";
  expect(gate_create(&config, &gate) == STEPGATE_OK && gate != NULL, "gate_create");
  expect(gate_create(NULL, &other) == STEPGATE_OK && other != gate, "gate_create(NULL)");
  expect(gate_destroy(other) == STEPGATE_OK, "gate_destroy");
  config.size = offsetof(stepgate_gate_config, released); /* a caller's that was built before that field */
  config.released = "no such policy, and nobody reads it";
  expect(gate_create(&config, &other) == STEPGATE_OK, "gate_create: smaller size");
  expect(gate_destroy(other) == STEPGATE_OK, "gate_destroy of that one");
  expect(gate_destroy(other) == STEPGATE_INVALID, "gate_destroy twice");
  expect(gate_destroy(NULL) == STEPGATE_OK, "gate_destroy(NULL)");
  return gate;
}

static void call_groups(void* library, stepgate_gate* gate) {
  FUNCTION(stepgate_status, add_group, (stepgate_gate*, void*, uint32_t))
  FUNCTION(stepgate_status, remove_group, (stepgate_gate*, void*))
  int no_communicator = 0;
  expect(add_group(gate, NULL, 0) == STEPGATE_INVALID, "add_group(NULL)");
  expect(add_group(gate, &no_communicator, 1) == STEPGATE_INVALID, "add_group: flags");
  expect(add_group(gate, &no_communicator, 0) == STEPGATE_INVALID, "add_group: never seen");
  expect(remove_group(gate, &no_communicator) == STEPGATE_INVALID, "remove_group: not there");
  expect(add_group(NULL, &no_communicator, 0) == STEPGATE_INVALID, "add_group: no gate");
}

static uint32_t call_ranges(void* library, stepgate_gate* gate, float* memory) {
  FUNCTION(stepgate_status, declare_range, (stepgate_gate*, const stepgate_range*, uint32_t*))
  FUNCTION(stepgate_status, retire_range, (stepgate_gate*, uint32_t))
  FUNCTION(stepgate_status, retire_all, (stepgate_gate*))
  FUNCTION(stepgate_status, range_absent, (stepgate_gate*, uint32_t, int))
  stepgate_segment segment;
  stepgate_range range;
  uint32_t id = 99;
  segment.name = "weight";
  segment.data = memory;
  segment.count = 2;
  memset(&range, 0, sizeof range);
  range.name = "layer";
  range.segments = &segment;
  range.segment_count = 1;
  range.compute_type = -1;
  expect(declare_range(gate, &range, &id) == STEPGATE_INVALID && id == 99, "declare_range: size 0");
  range.size = sizeof range;
  expect(declare_range(gate, NULL, &id) == STEPGATE_INVALID, "declare_range(NULL)");
  expect(declare_range(gate, &range, &id) == STEPGATE_OK, "declare_range");
  expect(declare_range(gate, &range, &id) == STEPGATE_INVALID, "declare_range: overlap");
  expect(retire_range(gate, id) == STEPGATE_OK, "retire_range");
  expect(retire_range(gate, id) == STEPGATE_INVALID, "retire_range twice");
  expect(declare_range(gate, &range, &id) == STEPGATE_OK, "declare_range again");
  expect(retire_all(gate) == STEPGATE_OK, "retire_all");
  expect(declare_range(gate, &range, &id) == STEPGATE_OK, "declare_range a third time");
  expect(range_absent(gate, id, 1) == STEPGATE_OK, "range_absent");
  expect(range_absent(gate, id, 0) == STEPGATE_OK, "range_absent undone");
  expect(range_absent(gate, 4096, 1) == STEPGATE_INVALID, "range_absent: no such range");
  return id;
}

/* A world of one: the sum over the ranks is what this rank wrote. */
static void activate(void* library, stepgate_gate* gate) {
  FUNCTION(stepgate_status, enforce_summarize, (stepgate_gate*, void*, double*))
  FUNCTION(stepgate_status, enforce_decide, (stepgate_gate*, void*, const double*))
  FUNCTION(stepgate_status, enforce_begin, (stepgate_gate*, void*))
  FUNCTION(stepgate_status, step_begin, (stepgate_gate*, void*))
  double fields[STEPGATE_ACTIVATION_FIELDS];
  int i;
  expect(step_begin(gate, NULL) == STEPGATE_INACTIVE, "step_begin before the activation");
  expect(enforce_begin(gate, NULL) == STEPGATE_FAILED, "enforce_begin without a group");
  for (i = 0; i < STEPGATE_ACTIVATION_FIELDS; ++i) fields[i] = 0;
  expect(enforce_decide(gate, NULL, fields) == STEPGATE_REFUSED, "enforce_decide: nobody voted");
  expect(enforce_summarize(gate, NULL, NULL) == STEPGATE_INVALID, "enforce_summarize(NULL)");
  expect(enforce_decide(gate, NULL, NULL) == STEPGATE_INVALID, "enforce_decide(NULL)");
  expect(enforce_summarize(gate, NULL, fields) == STEPGATE_OK, "enforce_summarize");
  expect(enforce_decide(gate, NULL, fields) == STEPGATE_OK, "enforce_decide");
}

static void step(void* library, stepgate_gate* gate, float* memory) {
  FUNCTION(stepgate_status, step_begin, (stepgate_gate*, void*))
  FUNCTION(stepgate_status, scale, (stepgate_gate*, double*))
  FUNCTION(stepgate_status, summarize, (stepgate_gate*, uint32_t, void*, double*))
  FUNCTION(stepgate_status, decide, (stepgate_gate*, uint32_t, void*))
  FUNCTION(stepgate_status, scaler_update, (stepgate_gate*, void*))
  FUNCTION(stepgate_status, step_wait, (stepgate_gate*, uint32_t, stepgate_decision*))
  FUNCTION(stepgate_status, apply, (stepgate_gate*, uint32_t, void*))
  FUNCTION(stepgate_status, outputs, (stepgate_gate*, uint32_t, const stepgate_outputs_t**))
  double summary[STEPGATE_SUMMARY_FIELDS], now = 0;
  stepgate_decision decision;
  int odd;
  const stepgate_outputs_t* out = NULL;
  memory[0] = 3 * 256;
  memory[1] = 4 * 256;
  memset(&decision, 0, sizeof decision);
  expect(step_begin(gate, NULL) == STEPGATE_OK, "step_begin");
  expect(scale(gate, &now) == STEPGATE_OK && now == 256, "scale");
  expect(scale(gate, NULL) == STEPGATE_INVALID, "scale(NULL)");
  expect(summarize(gate, 0, NULL, NULL) == STEPGATE_INVALID, "summarize(NULL)");
  expect(summarize(gate, 0, NULL, summary) == STEPGATE_OK, "summarize");
  expect(outputs(gate, 0, &out) == STEPGATE_OK && out->found_inf == 1, "outputs before the decision");
  expect(decide(gate, 0, NULL) == STEPGATE_OK, "decide");
  expect(scaler_update(gate, NULL) == STEPGATE_OK, "scaler_update");
  expect(step_wait(gate, 0, &decision) == STEPGATE_INVALID, "step_wait: size 0");
  decision.size = sizeof decision;
  expect(step_wait(gate, 0, &decision) == STEPGATE_OK, "step_wait");
  expect(step_wait(gate, 0, NULL) == STEPGATE_OK, "step_wait(NULL)");
  expect(decision.odd_rank == -1, "nobody is odd");
  memset(&decision, 77, sizeof decision);
  odd = decision.odd_rank;
  decision.size = offsetof(stepgate_decision, odd_rank); /* as above */
  expect(step_wait(gate, 0, &decision) == STEPGATE_OK && decision.odd_rank == odd, "step_wait: smaller size");
  decision.size = sizeof decision;
  expect(decision.size == sizeof decision && decision.step == 1 && decision.skip == 0, "the decision");
  expect(decision.norm == 5, "the norm");
  expect(out->found_inf == 0 && out->norm == 5, "outputs after the decision");
  expect(apply(gate, 0, NULL) == STEPGATE_OK && memory[0] == 3 && memory[1] == 4, "apply");
}

static void call_step(void* library, stepgate_gate* gate) {
  FUNCTION(stepgate_status, step_begin, (stepgate_gate*, void*))
  FUNCTION(stepgate_status, step_end, (stepgate_gate*, uint32_t, void*))
  FUNCTION(stepgate_status, veto, (stepgate_gate*, void*))
  FUNCTION(stepgate_status, set_scale, (stepgate_gate*, double))
  FUNCTION(stepgate_status, external_scale, (stepgate_gate*, const float*))
  const float own = 1;
  expect(step_end(gate, 0, NULL) == STEPGATE_INVALID, "step_end without a step");
  expect(external_scale(gate, &own) == STEPGATE_INVALID, "external_scale while enforcing");
  expect(strstr(last_error(), "while it observes") != NULL, "external_scale's error says when");
  expect(set_scale(gate, 512) == STEPGATE_OK, "set_scale");
  expect(set_scale(gate, -1) == STEPGATE_INVALID, "set_scale(-1)");
  expect(step_begin(gate, NULL) == STEPGATE_OK, "step_begin");
  expect(veto(gate, NULL) == STEPGATE_OK, "veto");
  expect(step_end(gate, 0, NULL) == STEPGATE_UNDECIDED, "step_end without a group to exchange over");
}

static void call_state(void* library, stepgate_gate* gate) {
  FUNCTION(stepgate_status, offenders, (stepgate_gate*, stepgate_offender*, size_t*))
  FUNCTION(stepgate_status, job_offenders, (stepgate_gate*, uint64_t, stepgate_offender*, size_t*))
  FUNCTION(stepgate_status, history, (stepgate_gate*, uint64_t, stepgate_decision*, size_t*))
  FUNCTION(stepgate_status, state, (stepgate_gate*, stepgate_scaler_info*))
  FUNCTION(stepgate_status, state_save, (stepgate_gate*, void*, size_t*))
  FUNCTION(stepgate_status, state_load, (stepgate_gate*, const void*, size_t))
  FUNCTION(stepgate_status, reset, (stepgate_gate*, uint64_t))
  FUNCTION(stepgate_status, reset_world, (stepgate_gate*, uint64_t, int, int))
  FUNCTION(stepgate_status, enforce_end, (stepgate_gate*, void*))
  stepgate_offender offender;
  stepgate_decision decisions[4];
  stepgate_scaler_info info;
  size_t count = 1, bytes = 0;
  char blob[1024];
  memset(&offender, 0, sizeof offender);
  expect(offenders(gate, &offender, &count) == STEPGATE_INVALID, "offenders: size 0");
  offender.size = sizeof offender;
  expect(offenders(gate, &offender, &count) == STEPGATE_OK && count == 0, "offenders");
  count = 1;
  expect(job_offenders(gate, 0, &offender, &count) == STEPGATE_UNSUPPORTED && count == 0, "job_offenders");
  decisions[0].size = sizeof decisions[0];
  count = 4;
  expect(history(gate, 0, decisions, &count) == STEPGATE_OK && count == 1, "history");
  expect(decisions[0].step == 1 && decisions[0].size == sizeof decisions[0], "history's entry");
  memset(&info, 0, sizeof info);
  expect(state(gate, &info) == STEPGATE_INVALID, "state: size 0");
  info.size = sizeof info;
  expect(state(gate, &info) == STEPGATE_OK && info.steps == 2 && info.enforcing == 1, "state");
  expect(strcmp(info.rule, "torch") == 0, "state's rule");
  expect(state_save(gate, NULL, &bytes) == STEPGATE_OK && bytes <= sizeof blob, "state_save(NULL)");
  expect(state_save(gate, blob, &bytes) == STEPGATE_OK, "state_save");
  expect(state_load(gate, blob, bytes) == STEPGATE_INVALID, "state_load while enforcing");
  expect(enforce_end(gate, NULL) == STEPGATE_FAILED, "enforce_end without a group");
  expect(reset(gate, 3) == STEPGATE_OK, "reset");
  expect(reset_world(gate, 4, 2, 2) == STEPGATE_INVALID, "reset_world: rank 2 of 2");
  expect(reset_world(gate, 4, 1, 0) == STEPGATE_OK, "reset_world");
  expect(state_load(gate, blob, bytes - 1) == STEPGATE_INVALID, "state_load: truncated");
  expect(state_load(gate, blob, bytes) == STEPGATE_OK, "state_load");
}

static void call_dump(void* library, stepgate_gate* gate) {
  FUNCTION(stepgate_status, dump, (stepgate_gate*, const char*))
  char path[100], line[2] = "";
  FILE* file;
  snprintf(path, sizeof path, "every_function.%ld.jsonl", (long)getpid());
  expect(dump(gate, NULL) == STEPGATE_INVALID, "dump: nowhere");
  expect(dump(gate, "") == STEPGATE_INVALID, "dump: no name");
  expect(dump(gate, "no/such/folder") == STEPGATE_FAILED, "dump: no such folder");
  expect(strstr(last_error(), "no/such/folder") != NULL, "dump's error names the file");
  expect(dump(gate, path) == STEPGATE_OK, "dump");
  file = fopen(path, "r");
  expect(file != NULL && fgets(line, sizeof line, file) != NULL && line[0] == '{', "dump's file");
  if (file != NULL) fclose(file);
  remove(path);
}

static void call_observations(void* library, stepgate_gate* gate) {
  FUNCTION(stepgate_status, external_scale, (stepgate_gate*, const float*))
  FUNCTION(stepgate_status, observe,
           (stepgate_gate*, const char*, const void*, uint64_t, stepgate_type, int, void*))
  FUNCTION(
      stepgate_status, observe_update,
      (stepgate_gate*, const char*, const void*, const void*, const void*, uint64_t, stepgate_type, void*))
  const float x = 1;
  expect(external_scale(NULL, &x) == STEPGATE_INVALID, "external_scale: no gate");
  expect(external_scale(gate, (const float*)((const char*)&x + 1)) == STEPGATE_INVALID,
         "external_scale: alignment");
  expect(strstr(last_error(), "alignment 4") != NULL, "external_scale's error says which");
  expect(external_scale(gate, &x) == STEPGATE_OK, "external_scale");
  expect(external_scale(gate, NULL) == STEPGATE_OK, "external_scale(NULL)");
  expect(external_scale(gate, &x) == STEPGATE_OK, "external_scale again");
  expect(observe(gate, "x", &x, 1, STEPGATE_FP32, STEPGATE_PHASE_LOSS, NULL) == STEPGATE_OK, "observe");
  expect(observe(gate, "x", &x, 1, STEPGATE_FP32, 9, NULL) == STEPGATE_INVALID, "observe: phase 9");
  expect(observe_update(gate, "x", &x, &x, &x, 1, STEPGATE_FP32, NULL) == STEPGATE_OK, "observe_update");
}

int main(int argc, char** argv) {
  float memory[2] = {0, 0};
  stepgate_gate* gate;
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) {
    printf("FAILED: %s\n", argc == 2 ? dlerror() : "usage: every_function LIBRARY");
    return 1;
  }
  {
    void* at = symbol(library, "stepgate_last_error");
    memcpy(&last_error, &at, sizeof last_error);
  }
  expect(last_error() != NULL && last_error()[0] == '\0', "last_error before anything failed");
  call_library(library);
  gate = create(library);
  call_groups(library, gate);
  call_ranges(library, gate, memory);
  activate(library, gate);
  step(library, gate, memory);
  call_step(library, gate);
  call_state(library, gate);
  call_dump(library, gate);
  call_observations(library, gate);
  {
    FUNCTION(stepgate_status, gate_destroy, (stepgate_gate*))
    expect(gate_destroy(gate) == STEPGATE_OK, "gate_destroy at the end");
  }
  puts(failures == 0 ? "every function answers" : "some functions failed");
  return failures != 0;
}

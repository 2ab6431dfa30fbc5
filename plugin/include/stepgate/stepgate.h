/* StepGate: the public C API (C99).
 *
 * A gate judges the optimizer step of a distributed mixed-precision job: every rank declares its
 * gradients, the plugin watches their reductions, all ranks agree once a step to apply, clip or
 * skip, and the dynamic loss scaler moves on. One gate per loss scaler.
 *
 *   stepgate_gate* gate;
 *   stepgate_gate_create(NULL, &gate);                  settings from the environment
 *   stepgate_add_group(gate, comm, 0);
 *   stepgate_declare_range(gate, &range, &id);          once per gradient bucket
 *   stepgate_enforce_begin(gate, stream);               all ranks, same point
 *   every step:
 *     stepgate_step_begin(gate, stream);  stepgate_scale(gate, &scale);
 *     ... backward with loss * scale, the job's own all-reduce ...
 *     stepgate_step_end(gate, 0, stream);
 *     stepgate_step_wait(gate, 0, &decision);           or read outputs->found_inf on the device
 *
 * Contract of every function, unless its comment says otherwise:
 *  - returns STEPGATE_OK or one of the codes below, never throws, never ends the process; a sentence
 *    about the last failure in the calling thread is stepgate_last_error();
 *  - may be called from any thread, but the step functions of one gate from one thread at a time;
 *  - enqueues on `stream` (a CUDA stream; NULL is the legacy default stream; ignored on host memory)
 *    and does not synchronise; only stepgate_step_wait, stepgate_enforce_begin/_end/_decide,
 *    stepgate_state_* and stepgate_gate_destroy may wait;
 *  - a stream that carried a declared gradient must live until the step's end;
 *  - pointers passed in belong to the caller and are read before the call returns, except gradient
 *    memory and `summary` arrays, which must live until the stream has passed them;
 *  - a struct starts with `size`, set by the caller to sizeof; fields beyond it are taken as zero,
 *    so older callers keep working. A size that is no known version is STEPGATE_INVALID.
 *
 * Functions of a later release return STEPGATE_UNSUPPORTED and change nothing.
 */
#ifndef STEPGATE_STEPGATE_H
#define STEPGATE_STEPGATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STEPGATE_VERSION_MAJOR 0
#define STEPGATE_VERSION_MINOR 1
#define STEPGATE_VERSION_PATCH 0
#define STEPGATE_API_VERSION 1

#if defined(STEPGATE_BUILDING_SHIM)
#define STEPGATE_API __attribute__((visibility("default")))
#else
#define STEPGATE_API
#endif

typedef int stepgate_status;
enum {
  STEPGATE_OK = 0,
  STEPGATE_UNSUPPORTED = 1, /* not in this release, or not on this device */
  STEPGATE_INVALID = 2,     /* an argument; nothing changed */
  STEPGATE_REFUSED = 3,     /* activation refused on all ranks: they observe; last_error says why */
  STEPGATE_TIMEOUT = 4,     /* a deadline passed; the issued call stays on the communicator */
  STEPGATE_RELEASED = 5,    /* the agreement has ended: use your own check from here on */
  STEPGATE_UNDECIDED = 6,   /* this rank got no decision: found_inf stays 1, apply nothing */
  STEPGATE_INACTIVE = 7,    /* needs enforce, which is not active */
  STEPGATE_FAILED = 8,      /* inside the plugin; the job's own calls are untouched */
  STEPGATE_DIVERGED = 9,    /* ranks hold different state and the policy is `error` */
  STEPGATE_NO_PLUGIN = 10,  /* from the header-only client: no plugin in this process */
  STEPGATE_OFF = 11         /* the plugin is off in this process: STEPGATE_MODE, or settings it refused */
};

typedef struct stepgate_gate stepgate_gate;

/* Element types of gradients. */
typedef int stepgate_type;
enum {
  STEPGATE_FP32 = 0,
  STEPGATE_FP16 = 1,
  STEPGATE_BF16 = 2,
  STEPGATE_FP64 = 3,
  STEPGATE_FP8_E4M3 = 4,
  STEPGATE_FP8_E5M2 = 5 /* statistics only */
};

/* Why a step was skipped, by precedence. */
typedef int stepgate_reason;
enum {
  STEPGATE_REASON_NONE = 0,
  STEPGATE_REASON_NAN = 1,
  STEPGATE_REASON_INF = 2,
  STEPGATE_REASON_VETO = 3,
  STEPGATE_REASON_NORM = 4
};

/* Blamed "ranks" below zero. */
enum { STEPGATE_RANK_REDUCTION = -1, STEPGATE_RANK_SEVERAL = -2, STEPGATE_RANK_UNKNOWN = -3 };

/* ---- library ---------------------------------------------------------------------------- */

/* STEPGATE_API_VERSION of the loaded plugin. */
STEPGATE_API int stepgate_api_version(void);
/* "0.1.0". Static. */
STEPGATE_API const char* stepgate_version(void);
/* "ok", "released", ... Static, never NULL. */
STEPGATE_API const char* stepgate_status_string(stepgate_status status);
/* What failed last in the calling thread; "" when nothing did. Valid until the thread's next call. */
STEPGATE_API const char* stepgate_last_error(void);
/* The metrics page of this process, such as "http://127.0.0.1:19470/metrics", or "" while there is
 * none. Writes at most `capacity` bytes with the final zero; STEPGATE_INVALID if it does not fit. */
STEPGATE_API stepgate_status stepgate_metrics_url(char* buffer, size_t capacity);

/* ---- gates ------------------------------------------------------------------------------ */

/* Zero or NULL in any field: from the environment, else the documented default. */
typedef struct {
  size_t size;
  const char* name;       /* label `gate` where a process has more than one; default "0" */
  int world;              /* size of the agreement; 0: rank and world from RANK and WORLD_SIZE */
  int rank;               /* in the agreement, read where world is not 0 */
  const char* rule;       /* "stepgate", "torch", "apex", "megatron", "deepspeed",
                             "deepspeed-consecutive", "static", "none" */
  double initial_scale;   /* > 0 */
  double growth;          /* > 1 */
  double backoff;         /* 0 < backoff < 1 */
  uint64_t interval;      /* good steps before a growth */
  uint32_t hysteresis;    /* only rules that have one */
  double minimum;         /* only rules that have one */
  double maximum;         /* only rules that have one */
  double max_norm;        /* clip threshold for the unscaled global norm; 0 none */
  double skip_norm;       /* skip above it; 0 none */
  const char* unscale;    /* "deferred", "apply", "in_hook" (the scan of a reduced gradient multiplies
                             it: fp32 result ranges that are final at the reduction, one reduction a
                             step, and no other scaler that unscales) */
  const char* divergence; /* "report", "veto", "error" */
  /* since 0.1.0's second layout; a size that ends before it is taken as well */
  const char* released; /* "skip", "unguarded": steps once the agreement has ended (STEPGATE_RELEASED) */
} stepgate_gate_config;

/* config may be NULL. The gate works on the CUDA device whose context is current in the calling thread, else
 * on host memory (STEPGATE_DEVICE). Not while a stream is captured. STEPGATE_INVALID names the field, the
 * value and what is allowed. Where STEPGATE_MODE is off, or the environment was refused, the gate looks at
 * nothing and votes against enforcing, so that all ranks refuse together: their vote is a collective, and a
 * rank that stayed away from it would meet it with its next gradient. */
STEPGATE_API stepgate_status stepgate_gate_create(const stepgate_gate_config* config, stepgate_gate** gate);
/* Waits for the gate's own work, ends its metrics, frees it. Not collective. NULL is allowed. What a captured
 * graph may refer to stays until the process ends. */
STEPGATE_API stepgate_status stepgate_gate_destroy(stepgate_gate* gate);

/* Adds a communicator (ncclComm_t) to the ordered list that the built-in exchange uses from the next
 * activation on: at most 8, the same sizes in the same order on every rank. The first one that spans the
 * world carries the exchange alone. Where none does, all of them carry it, one after the other, as a mesh
 * (tensor x pipeline x data): the product of their sizes must be the world, and they must meet each rank
 * once. flags: 0. The communicator must outlive the gate's use of it: call stepgate_remove_group before
 * destroying it; what the agreement loses so ends it. */
STEPGATE_API stepgate_status stepgate_add_group(stepgate_gate* gate, void* comm, uint32_t flags);
STEPGATE_API stepgate_status stepgate_remove_group(stepgate_gate* gate, void* comm);

/* ---- ranges ----------------------------------------------------------------------------- */

/* One parameter inside a range. */
typedef struct {
  const char* name; /* copied; NULL: the range's name and the index */
  const void* data; /* element-aligned */
  uint64_t count;   /* elements */
} stepgate_segment;

enum {
  STEPGATE_ROLE_RESULT = 0, /* what the optimizer reads: covered and counted every step */
  STEPGATE_ROLE_INPUT = 1   /* what this rank puts into a reduction: names parameters only */
};
enum {
  STEPGATE_RANGE_NOT_FINAL = 1u,  /* values at the reduction are not final: scan at step end */
  STEPGATE_RANGE_NOT_COUNTED = 2u /* another rank counts this duplicate for the norm; flags count */
};

typedef struct {
  size_t size;
  const char* name; /* label `bucket` in metrics; copied */
  const stepgate_segment* segments;
  size_t segment_count;
  stepgate_type type; /* as stored */
  int compute_type;   /* thresholds of under- and overflow; -1: fp16 where a scaler runs,
                         else the stored type */
  int role;           /* STEPGATE_ROLE_* */
  uint32_t flags;     /* STEPGATE_RANGE_* */
  uint32_t set;       /* decision set, 0 to 7 */
  double factor;      /* what the job still multiplies after the reduction; 0 means 1 */
} stepgate_range;

/* Declares a range for the current generation. Two result ranges may not overlap. */
STEPGATE_API stepgate_status stepgate_declare_range(stepgate_gate* gate, const stepgate_range* range,
                                                    uint32_t* id);
/* Forgets one range (its memory may be freed afterwards). */
STEPGATE_API stepgate_status stepgate_retire_range(stepgate_gate* gate, uint32_t id);
/* Forgets all ranges: buckets are being rebuilt. */
STEPGATE_API stepgate_status stepgate_retire_all(stepgate_gate* gate);
/* absent != 0: from the open step (or the next one) on the range has no gradient: it is neither scanned
 * nor counted until a call with absent = 0. */
STEPGATE_API stepgate_status stepgate_range_absent(stepgate_gate* gate, uint32_t id, int absent);

/* ---- activation ------------------------------------------------------------------------- */

/* Doubles in the array of stepgate_enforce_summarize. */
#define STEPGATE_ACTIVATION_FIELDS 64
/* Doubles in the array of stepgate_summarize. */
#define STEPGATE_SUMMARY_FIELDS 64

/* The two halves around anyone's SUM over the ranks that must agree: summarize writes
 * STEPGATE_ACTIVATION_FIELDS doubles, somebody sums them over all ranks, decide reads the sums and
 * gives the same verdict on every rank: STEPGATE_OK, or STEPGATE_REFUSED with the reason. Compared:
 * version, configuration, list of groups, scaler state, generation, contributors and their ranks.
 * Host memory. */
STEPGATE_API stepgate_status stepgate_enforce_summarize(stepgate_gate* gate, void* stream, double* fields);
STEPGATE_API stepgate_status stepgate_enforce_decide(stepgate_gate* gate, void* stream, const double* fields);
/* Both over the built-in transport (the gate's groups). Collective: every rank, same point,
 * only where the launcher guarantees the plugin on all ranks. Waits STEPGATE_ACTIVATION_TIMEOUT at most (600
 * s). */
STEPGATE_API stepgate_status stepgate_enforce_begin(stepgate_gate* gate, void* stream);
/* Collective: all ranks leave enforce at one program point. */
STEPGATE_API stepgate_status stepgate_enforce_end(stepgate_gate* gate, void* stream);

/* ---- one step --------------------------------------------------------------------------- */

typedef struct {
  size_t size;
  uint64_t step; /* counts from 1 */
  int skip;      /* 1: do not run the optimizer */
  stepgate_reason reason;
  int overflow; /* 1: an inf or NaN */
  int released;
  int diverged;
  int offender;      /* rank, or STEPGATE_RANK_* */
  double norm;       /* unscaled, before clipping; NaN when skipped */
  double clip;       /* 1 when not clipped */
  double scale;      /* that this step's backward used */
  double next_scale; /* of the next backward */
  double multiplier; /* gradients times this are ready for the optimizer; 1 after apply, on a skip */
  double grad_scale; /* its inverse, as fused optimizers take it */
  /* since 0.1.0's second layout; a size that ends before it is taken as well */
  int odd_rank; /* the one rank that holds another state than all others, where diverged; -1: it cannot be
                   told (fewer than three ranks, or more than one odd) */
  int reserved;
} stepgate_decision;

/* Fixed for the gate's life, in the memory where the gradients live. */
typedef struct {
  float found_inf;  /* exactly 0.0 or 1.0; 1 for every skip, until a decision writes 0 */
  float grad_scale; /* divisor */
  float multiplier;
  float norm;  /* 0 when skipped */
  float scale; /* of the next backward */
  float reserved[3];
} stepgate_outputs_t;

/* Starts the next step: counts it, latches the loss scale of this backward. */
STEPGATE_API stepgate_status stepgate_step_begin(stepgate_gate* gate, void* stream);
/* The scale to multiply the loss with in the step that is open. Host memory only: on a CUDA device it is
 * STEPGATE_UNSUPPORTED, for the host cannot know it without waiting; use stepgate_outputs()->scale there,
 * or stepgate_state between steps. */
STEPGATE_API stepgate_status stepgate_scale(stepgate_gate* gate, double* scale);
/* This rank asks all ranks to skip the open step (its own loss was bad, say). */
STEPGATE_API stepgate_status stepgate_veto(stepgate_gate* gate, void* stream);

/* First half: scans what no hook covered, folds, writes STEPGATE_SUMMARY_FIELDS doubles and sets
 * found_inf = 1. On a GPU the array may lie in device memory (then it is summed on the stream, and may be
 * captured) or on the host (then the caller waits for the stream before it sums). */
STEPGATE_API stepgate_status stepgate_summarize(stepgate_gate* gate, uint32_t set, void* stream,
                                                double* summary);
/* Second half: reads the array of the set's last stepgate_summarize, by now summed over all ranks. Nothing
 * may write a gradient of the set in between: it would be in neither the norm nor the decision. With unscale
 * = in_hook a rank that sees one written answers STEPGATE_UNDECIDED, and all are released in the next step.
 */
STEPGATE_API stepgate_status stepgate_decide(stepgate_gate* gate, uint32_t set, void* stream);
/* Once a step, after its last decide: moves the loss scale, publishes the step. */
STEPGATE_API stepgate_status stepgate_scaler_update(stepgate_gate* gate, void* stream);
/* summarize, SUM over the built-in transport, decide, scaler update: for a gate with one set, because it
 * moves the scale and so ends the step. A gate with several sets calls the four itself: summarize, a sum of
 * its own and decide for each set, in one order on all ranks, then stepgate_scaler_update once. A second
 * stepgate_step_end in a step is STEPGATE_INVALID and says so. Collective, once a step on every rank,
 * whatever its local flags say. */
STEPGATE_API stepgate_status stepgate_step_end(stepgate_gate* gate, uint32_t set, void* stream);
/* Waits for the set's decision: for the streams that the gate's calls were given. A caller that replays a
 * captured step synchronises with the replay first. decision may be NULL. STEPGATE_RELEASED and
 * STEPGATE_UNDECIDED come with decision->skip = 1; but with released = "unguarded" steps that begin after the
 * one that ended the agreement come with skip = 0 and the multiplier that unscales them. */
STEPGATE_API stepgate_status stepgate_step_wait(stepgate_gate* gate, uint32_t set,
                                                stepgate_decision* decision);
/* Multiplies every result range of the set by its multiplier, in one pass; nothing on a skip. Only
 * with unscale = "apply"; once a step. Afterwards multiplier and grad_scale are 1. */
STEPGATE_API stepgate_status stepgate_apply(stepgate_gate* gate, uint32_t set, void* stream);
/* The set's fixed output block. */
STEPGATE_API stepgate_status stepgate_outputs(stepgate_gate* gate, uint32_t set,
                                              const stepgate_outputs_t** outputs);

/* ---- the loss scale from outside -------------------------------------------------------- */

/* Sets the scaler's scale, as torch's update(new_scale) does; all ranks must. Recorded as external. */
STEPGATE_API stepgate_status stepgate_set_scale(stepgate_gate* gate, double scale);
/* The fp32 scale of the job's own scaler, in device or host memory: read at the beginning of every step that
 * is observed, published, and divided out of the observed norm. It must stay until the next call, or the
 * gate's end; NULL ends it. One a process, the last one told. STEPGATE_INVALID while the gate enforces: its
 * own scaler gives the scale then. */
STEPGATE_API stepgate_status stepgate_external_scale(stepgate_gate* gate, const float* scale);

/* ---- observations beyond gradients ------------------------------------------------------ */

enum {
  STEPGATE_PHASE_FORWARD = 0,
  STEPGATE_PHASE_GRAD_INPUT = 1,
  STEPGATE_PHASE_LOSS = 2,
  STEPGATE_PHASE_WEIGHT = 3
};
/* Statistics of `count` elements, in one pass on the stream and in any mode: largest magnitude, rms, shares
 * of zeros and subnormals, inf and NaN, published as stepgate_observation_* under the name (at most 1,024
 * names and phases; of what is looked at more than twice between two looks of the publisher, 50 ms, the last
 * two count). Steps need not be open. The memory must stay until the stream has passed the call; calls of one
 * name must be ordered with each other as the streams are. A name that is new inside of a capture is
 * STEPGATE_UNSUPPORTED. */
STEPGATE_API stepgate_status stepgate_observe(stepgate_gate* gate, const char* name, const void* data,
                                              uint64_t count, stepgate_type type, int phase, void* stream);
/* The share of elements with an update that is not zero whose stored value did not change (the update was too
 * small for the type). before, after and update are `count` elements of one type each, no fp8. As above. */
STEPGATE_API stepgate_status stepgate_observe_update(stepgate_gate* gate, const char* name,
                                                     const void* before, const void* after,
                                                     const void* update, uint64_t count, stepgate_type type,
                                                     void* stream);

/* ---- what happened ---------------------------------------------------------------------- */

/* One parameter of THIS rank that held an inf or a NaN before the reduction. */
typedef struct {
  size_t size;
  uint64_t step;
  int rank;
  int has_nan;       /* 1 nan, 0 inf only */
  uint64_t inf, nan; /* elements */
  char range[64];    /* truncated names, always zero-terminated */
  char parameter[128];
} stepgate_offender;

/* The newest offenders of this rank, oldest first. *count: in, capacity; out, entries written. The
 * plugin keeps the last 256. list[0].size must be set. */
STEPGATE_API stepgate_status stepgate_offenders(stepgate_gate* gate, stepgate_offender* list, size_t* count);
/* The offenders of ALL ranks in one step, by rank; step 0: the newest step that has any. On rank 0 of a job
 * with the plane (STEPGATE_PLANE=on), else STEPGATE_UNSUPPORTED. Reports come within a second or so, and a
 * rank that is cut off does not report: the list is what has arrived. Rank 0 keeps the last 16,384 of all
 * steps and drops the oldest (stepgate_job_offenders_dropped_total). list and *count as above. */
STEPGATE_API stepgate_status stepgate_job_offenders(stepgate_gate* gate, uint64_t step,
                                                    stepgate_offender* list, size_t* count);
/* Decisions of this rank with step > after, oldest first, at most *count; the plugin keeps 1,024. */
STEPGATE_API stepgate_status stepgate_history(stepgate_gate* gate, uint64_t after, stepgate_decision* list,
                                              size_t* count);

typedef struct {
  size_t size;
  const char* rule; /* static */
  double scale;     /* of the next backward */
  int64_t growth_tracker;
  int64_t hysteresis_left;
  int at_minimum;
  uint64_t steps, applied, skipped;
  uint64_t last_decided, last_confirmed;
  uint64_t generation;
  int enforcing, released;
} stepgate_scaler_info;
STEPGATE_API stepgate_status stepgate_state(stepgate_gate* gate, stepgate_scaler_info* info);

/* The flight recorder: what this rank's gate knows of its last steps (at most 1,024), to a file of one JSON
 * object per line: "gate", each "step", the newest figures of each "range", "offender"s. The file appears
 * whole, in the place of one that was there. Does not wait: a step that the device has not finished is not in
 * it. At any time, also after a release. STEPGATE_FAILED says why there is no file. */
STEPGATE_API stepgate_status stepgate_dump(stepgate_gate* gate, const char* path);

/* ---- checkpoints and elastic restarts --------------------------------------------------- */

/* All that decides the future, as a versioned blob with a checksum. buffer NULL: *bytes is set to
 * what is needed. Between steps only. */
STEPGATE_API stepgate_status stepgate_state_save(stepgate_gate* gate, void* buffer, size_t* bytes);
/* Refuses a truncated, foreign or newer blob and changes nothing then. Before activation only. */
STEPGATE_API stepgate_status stepgate_state_load(stepgate_gate* gate, const void* blob, size_t bytes);
/* After an elastic restart: ends the agreement, keeps the scaler, starts `generation`. Re-activate. */
STEPGATE_API stepgate_status stepgate_reset(stepgate_gate* gate, uint64_t generation);
/* After the world has changed (ranks were lost and ncclCommShrink made a smaller communicator, or a larger
 * one was made): as stepgate_reset, and the agreement is now one of `world` ranks among which this one is
 * `rank`. Scaler, ranges and history stay; groups are forgotten: abort or destroy the old communicators
 * first, then add the new ones, and activate. Ranks that were served differently by the last exchange of the
 * old world hold different states, which the activation refuses: load the last checkpoint on all of them.
 * Between steps, or in a step that the loss of a rank ended. Not collective. */
STEPGATE_API stepgate_status stepgate_reset_world(stepgate_gate* gate, uint64_t generation, int world,
                                                  int rank);

#ifdef __cplusplus
}
#endif
#endif /* STEPGATE_STEPGATE_H */

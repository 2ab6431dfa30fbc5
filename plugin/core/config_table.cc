#include "plugin/core/config_table.h"

#include <cstring>

namespace stepgate::gate {
namespace {

constexpr ConfigEntry kTable[] = {
    {"STEPGATE_MODE", "choice", "observe", "off, observe, enforce",
     "off: hooks pass through; observe: never changes a decision; enforce: decides, once activated."},
    {"STEPGATE_RULE", "choice", "stepgate",
     "stepgate, torch, apex, megatron, deepspeed, deepspeed-consecutive, static, none",
     "Whose rule the dynamic loss scaler follows."},
    {"STEPGATE_INITIAL_SCALE", "number", "the rule's", "> 0, finite in fp32",
     "Loss scale of the first step."},
    {"STEPGATE_GROWTH", "number", "2", "> 1", "Factor of a growth (deepspeed: the one factor, both ways)."},
    {"STEPGATE_BACKOFF", "number", "0.5", "> 0 and < 1", "Factor after an overflow."},
    {"STEPGATE_INTERVAL", "integer", "the rule's", ">= 1", "Good steps before a growth."},
    {"STEPGATE_HYSTERESIS", "integer", "the rule's",
     ">= 1; apex, megatron, deepspeed, deepspeed-consecutive only",
     "Overflows that are forgiven before the scale backs off."},
    {"STEPGATE_MINIMUM_SCALE", "number", "the rule's",
     "> 0; stepgate, megatron, deepspeed, deepspeed-consecutive only", "The scale never falls below it."},
    {"STEPGATE_MAXIMUM_SCALE", "number", "16777216", ">= the minimum; stepgate only",
     "The scale never grows above it."},
    {"STEPGATE_MAX_NORM", "number", "0", ">= 0; 0 means no clipping",
     "Clips the unscaled global gradient norm to this."},
    {"STEPGATE_SKIP_NORM", "number", "0", ">= 0; 0 means never",
     "Skips a step whose unscaled norm is above this."},
    {"STEPGATE_UNSCALE", "choice", "deferred", "deferred, apply, in_hook",
     "deferred: the optimizer multiplies; apply: stepgate_apply does, in one pass; in_hook: the scan of a "
     "reduced gradient does (fp32, final at the reduction)."},
    {"STEPGATE_DIVERGENCE", "choice", "veto", "report, veto, error",
     "What happens in a step in which ranks are found to hold different state."},
    {"STEPGATE_RELEASED", "choice", "skip", "skip, unguarded",
     "Steps after the agreement has ended, until the job acts on it: found_inf stays 1; or they are applied, "
     "unscaled "
     "but unclipped and unchecked."},
    {"STEPGATE_ATTRIBUTION", "choice", "auto", "auto, on, off",
     "Scan what this rank puts into a reduction, to name the rank and parameter; auto: on in enforce."},
    {"STEPGATE_OBSERVE_MIN_COUNT", "integer", "1024", ">= 1",
     "Observe: a reduction of fewer elements is taken for no gradient."},
    {"STEPGATE_OBSERVE_RANKS", "integer", "0", ">= 0; 0 means any",
     "Observe: only reductions over communicators of so many ranks are taken for gradients."},
    {"STEPGATE_OBSERVE_COMM", "text", "", "UTF-8 text without control characters; * stands for any",
     "Observe: only reductions over communicators of this name (`commName` of `ncclConfig_t`) are taken for "
     "gradients."},
    {"STEPGATE_DEVICE", "choice", "auto", "auto, host, cuda",
     "Where gates work; auto: the CUDA device whose context is current where a gate is created, else host "
     "memory."},
    {"STEPGATE_ACTIVATION_TIMEOUT", "number", "600", "> 0, seconds", "Deadline of stepgate_enforce_begin."},
    {"STEPGATE_METRICS", "choice", "on", "on, off", "Whether the process publishes metrics at all."},
    {"STEPGATE_METRICS_ADDR", "text", "127.0.0.1",
     "a numeric IPv4 address of this machine, or localhost; the HTTP server has no IPv6",
     "Where the metrics page listens."},
    {"STEPGATE_METRICS_PORT", "integer", "19470", "0 to 65535; 0 picks a free one",
     "Port of local rank 0; every local rank adds its number."},
    {"STEPGATE_METRICS_AUTH_FILE", "path", "", "a path: a file with one line, user:password",
     "Basic authentication of the page; unreadable: no page, but the textfile."},
    {"STEPGATE_METRICS_TLS_CERTIFICATE", "path", "", "a path: a PEM file, the certificate and its chain",
     "The page is served over TLS; unusable: no page, but the textfile."},
    {"STEPGATE_METRICS_TLS_KEY", "path", "the certificate's file",
     "a path: a PEM file, without a pass phrase; with STEPGATE_METRICS_TLS_CERTIFICATE only",
     "Private key of the certificate."},
    {"STEPGATE_METRICS_TEXTFILE_DIR", "path", "", "a path: a folder",
     "Where the page is written as a file when there is none to serve."},
    {"STEPGATE_METRICS_FILE_SD_DIR", "path", "", "a path: a folder",
     "Where each rank leaves a Prometheus file_sd target while it runs."},
    {"STEPGATE_METRICS_BUCKETS", "integer", "64", "1 to 4096",
     "Most values of the label bucket before `other`."},
    {"STEPGATE_ANOMALY_SKIPS_IN_ROW", "integer", "10", ">= 1",
     "Anomaly consecutive_skips: more skipped steps in a row than this."},
    {"STEPGATE_ANOMALY_FLOOR_WINDOW", "integer", "100", ">= 1",
     "Anomaly scale_floor: none of this many steps was applied (or the scale is at its minimum)."},
    {"STEPGATE_ANOMALY_UNDERFLOW_JUMP", "number", "0.25", "> 0 and <= 1",
     "Anomaly underflow: the share of zeros and subnormals rises this far above its own average."},
    {"STEPGATE_ANOMALY_STAGNATION_SHARE", "number", "0.5", "> 0 and <= 1",
     "Anomaly stagnation: this share of the updates that stepgate_observe_update is shown is absorbed."},
    {"STEPGATE_ANOMALY_SPIKE_FACTOR", "number", "5", "> 1",
     "Anomaly norm_spike: the gradient norm lies above so many times the median of those before it."},
    {"STEPGATE_ANOMALY_SPIKE_WINDOW", "integer", "100", "1 to 1024",
     "Anomaly norm_spike: the norms that the median is of."},
    {"STEPGATE_ANOMALY_THRASH_GROWTHS", "integer", "5", ">= 1",
     "Anomaly scale_thrash: so many growths of the loss scale in a row are lost at once."},
    {"STEPGATE_ANOMALY_SILENT_SECONDS", "number", "60", "> 0, seconds",
     "Anomaly silent_rank, on rank 0 of a plane: a rank is not heard from, or not at the exchange that "
     "others "
     "wait in."},
    {"STEPGATE_PLANE", "choice", "off", "off, on",
     "Whether ranks report to rank 0 over UCX: liveness, offenders of all ranks, the job's metrics."},
    {"STEPGATE_RENDEZVOUS", "text", "MASTER_ADDR:(MASTER_PORT + 1)", "host:port, port 1 to 65535",
     "Where rank 0 of the plane listens and the others call."},
    {"STEPGATE_PLANE_TIMEOUT", "number", "10", "0.2 to 3600, seconds",
     "A rank that is not heard from for so long counts as down."},
    {"STEPGATE_JOB_NAME", "text", "", "UTF-8 text without control characters",
     "Label job_name of stepgate_job_info."},
    {"STEPGATE_RUN_ID", "text", "", "UTF-8 text without control characters",
     "Label run_id of stepgate_job_info."},
    {"STEPGATE_CONFIG", "path", "", "a file of lines `NAME = value`; environment only",
     "Settings of this table that the environment leaves unset."},
    {"STEPGATE_LOG", "choice", "warn", "off, error, warn, info", "What the plugin writes to standard error."},
    {"MASTER_ADDR", "text", "", "a host's name or IPv4 address",
     "The job's meeting place: the plane's host. Read with STEPGATE_PLANE=on only; what cannot be used "
     "counts as unset."},
    {"MASTER_PORT", "integer", "", "1 to 65534",
     "The job's meeting place: the plane's port is one above. As MASTER_ADDR."},
    {"RANK", "integer", "0", ">= 0",
     "torchrun's: this process's rank, where the gate's configuration gives none."},
    {"WORLD_SIZE", "integer", "1", ">= 1",
     "torchrun's: ranks of the job, where the gate's configuration gives none."},
    {"LOCAL_RANK", "integer", "0", ">= 0", "torchrun's: rank on this machine; picks the metrics port."},
    {"LOCAL_WORLD_SIZE", "integer", "1", ">= 1",
     "torchrun's: ranks on this machine; bounds the metrics ports."},
    {"OMPI_COMM_WORLD_RANK", "integer", "", ">= 0", "Open MPI's rank, where torchrun gives none."},
    {"OMPI_COMM_WORLD_SIZE", "integer", "", ">= 1", "Open MPI's number of ranks."},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "integer", "", ">= 0", "Open MPI's rank on this machine."},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "integer", "", ">= 1", "Open MPI's ranks on this machine."},
    {"PMIX_RANK", "integer", "", ">= 0", "PMIx's rank, where neither of these gives one."},
    {"SLURM_PROCID", "integer", "", ">= 0", "Slurm's rank, where nobody else gives one."},
    {"SLURM_NTASKS", "integer", "", ">= 1", "Slurm's number of ranks."},
    {"SLURM_LOCALID", "integer", "", ">= 0", "Slurm's rank on this machine."},
    {"SLURM_STEP_TASKS_PER_NODE", "text", "", "a list such as 4(x2),3",
     "Slurm's ranks on each machine; the first figure bounds the metrics ports."},
    {"TORCHELASTIC_RUN_ID", "text", "", "UTF-8 text without control characters",
     "Run id where STEPGATE_RUN_ID is unset; `none` counts as unset."},
    {"SLURM_JOB_ID", "text", "", "UTF-8 text without control characters", "Run id where both are unset ..."},
    {"SLURM_STEP_ID", "text", "", "UTF-8 text without control characters",
     "... with the job's step behind it."},
    {"PMIX_NAMESPACE", "text", "", "UTF-8 text without control characters",
     "Run id where nobody else gives one."},
    {"TORCHELASTIC_RESTART_COUNT", "integer", "", ">= 0", "How often torchrun has restarted the workers."},
    {"SLURM_RESTART_COUNT", "integer", "", ">= 0", "How often Slurm has requeued the job."},
};

}  // namespace

std::span<const ConfigEntry> config_table() {
  return kTable;
}

std::string refused_value(const char* name, const char* value) {
  const char* allowed = "";
  for (const ConfigEntry& e : kTable) {
    if (std::strcmp(e.name, name) == 0) allowed = e.allowed;
  }
  return std::string(name) + "='" + value + "' is refused; allowed: " + allowed;
}

}  // namespace stepgate::gate

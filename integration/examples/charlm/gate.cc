#include "integration/examples/charlm/gate.h"

#include <cstdio>
#include <stdexcept>

namespace stepgate::charlm {
namespace {

// The plugin keeps the newest 1,024 decisions; fetching well before that loses none.
constexpr std::size_t kFetchEvery = 256;

stepgate_gate_config config_of(const JudgeContext& context) {
  const Options& options = context.options;
  stepgate_gate_config config{};
  config.size = sizeof config;
  config.rank = static_cast<int>(context.rank);
  config.world = static_cast<int>(context.world);
  config.rule = options.rule.empty() ? nullptr : options.rule.c_str();
  config.initial_scale = options.initial_scale.value_or(0);
  config.interval = options.interval.value_or(0);
  config.max_norm = options.max_norm.value_or(0);
  return config;
}

stepgate_type gate_type(GradType type) {
  switch (type) {
    case GradType::kFp16: return STEPGATE_FP16;
    case GradType::kBf16: return STEPGATE_BF16;
    case GradType::kFp32: break;
  }
  return STEPGATE_FP32;
}

std::string reason_name(stepgate_reason reason) {
  switch (reason) {
    case STEPGATE_REASON_NAN: return "nan";
    case STEPGATE_REASON_INF: return "inf";
    case STEPGATE_REASON_VETO: return "veto";
    case STEPGATE_REASON_NORM: return "norm";
    default: return "none";
  }
}

}  // namespace

StepRow row_of(const stepgate_decision& decision) {
  return {decision.step, decision.skip != 0, reason_name(decision.reason), decision.scale, decision.norm};
}

void Gate::check(stepgate_status status, const char* what) {
  if (status == STEPGATE_OK) return;
  throw std::runtime_error(std::string(what) + ": " + stepgate_client_status_string(status) + ": " +
                           stepgate_client_last_error());
}

std::unique_ptr<Gate> Gate::create(const JudgeContext& context) {
  if (stepgate_client_load() != STEPGATE_OK) return nullptr;
  const stepgate_gate_config config = config_of(context);
  stepgate_gate* made = nullptr;
  const stepgate_status status = stepgate_client_gate_create(&config, &made);
  check(status, "stepgate_gate_create");
  std::unique_ptr<Gate> gate(new Gate(context, made));
  gate->declare(context.gradients);
  if (!context.state.empty()) {
    check(stepgate_client_state_load(made, context.state.data(), context.state.size()),
          "stepgate_state_load");
  }
  return gate;
}

Gate::Gate(const JudgeContext& context, stepgate_gate* gate)
    : communicator_(context.communicator),
      gate_(gate),
      stream_(context.stream),
      fetched_(context.steps_done) {}

Gate::~Gate() {
  stepgate_client_remove_group(gate_, communicator_.handle());
  stepgate_client_gate_destroy(gate_);
}

void Gate::declare(const ReducedGradients& gradients) {
  check(stepgate_client_add_group(gate_, communicator_.handle(), 0), "stepgate_add_group");
  for (const GradientRange& described : gradients.ranges()) {
    std::vector<stepgate_segment> segments;
    for (const GradientRange::Segment& segment : described.segments) {
      segments.push_back({segment.name.c_str(), segment.data, segment.count});
    }
    stepgate_range range{};
    range.size = sizeof range;
    range.name = described.name.c_str();
    range.segments = segments.data();
    range.segment_count = segments.size();
    range.type = gate_type(gradients.grad_type());
    range.compute_type = STEPGATE_FP16;
    range.role = described.result ? STEPGATE_ROLE_RESULT : STEPGATE_ROLE_INPUT;
    range.flags = described.counted ? 0 : STEPGATE_RANGE_NOT_COUNTED;
    range.factor = gradients.factor();
    std::uint32_t id = 0;
    check(stepgate_client_declare_range(gate_, &range, &id), "stepgate_declare_range");
  }
}

bool Gate::enforce() {
  const stepgate_status status = stepgate_client_enforce_begin(gate_, stream_);
  if (status == STEPGATE_OK) return true;
  if (status == STEPGATE_REFUSED || status == STEPGATE_INACTIVE) {
    std::fprintf(stderr, "charlm: no agreement (%s: %s); every rank checks for itself\n",
                 stepgate_client_status_string(status), stepgate_client_last_error());
    return false;
  }
  check(status, "stepgate_enforce_begin");
  return false;
}

const std::vector<StepRow>& Gate::steps() {
  std::vector<stepgate_decision> list(2 * kFetchEvery);
  for (;;) {
    for (stepgate_decision& entry : list) entry.size = sizeof entry;
    std::size_t count = list.size();
    check(stepgate_client_history(gate_, fetched_, list.data(), &count), "stepgate_history");
    if (count == 0) return steps_;
    for (std::size_t i = 0; i < count; ++i) steps_.push_back(row_of(list[i]));
    newest_ = list[count - 1];
    fetched_ = newest_.step;
  }
}

void Gate::keep_up(std::uint64_t newest_step) {
  if (newest_step - fetched_ >= kFetchEvery) steps();
}

void Gate::fetch_offenders(std::uint64_t step) {
  std::vector<stepgate_offender> list(256);
  for (stepgate_offender& entry : list) entry.size = sizeof entry;
  std::size_t count = list.size();
  check(stepgate_client_offenders(gate_, list.data(), &count), "stepgate_offenders");
  for (std::size_t i = 0; i < count; ++i) {
    if (list[i].step == step) {
      offenders_.push_back({step, list[i].rank, list[i].has_nan != 0, list[i].parameter});
    }
  }
}

std::string Gate::metrics_url() const {
  char url[256] = "";
  return stepgate_client_metrics_url(url, sizeof url) == STEPGATE_OK ? url : "";
}

std::vector<unsigned char> Gate::save() {
  std::size_t bytes = 0;
  check(stepgate_client_state_save(gate_, nullptr, &bytes), "stepgate_state_save");
  std::vector<unsigned char> blob(bytes);
  check(stepgate_client_state_save(gate_, blob.data(), &bytes), "stepgate_state_save");
  blob.resize(bytes);
  return blob;
}

}  // namespace stepgate::charlm

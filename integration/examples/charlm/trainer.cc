#include "integration/examples/charlm/trainer.h"

#include <sys/stat.h>

#include <cstdio>
#include <stdexcept>
#include <thread>
#include <utility>

#include "integration/examples/charlm/files.h"
#include "integration/examples/charlm/half.h"

namespace stepgate::charlm {
namespace {

using Clock = std::chrono::steady_clock;

ModelShape shape_of(const Options& options, const Text& text) {
  ModelShape shape;
  shape.vocabulary = text.vocabulary();
  shape.context = options.context;
  shape.hidden = options.hidden;
  shape.layers = options.layers;
  return shape;
}

std::vector<float> rounded(std::vector<float> weights) {
  round_all_to_half(weights.data(), weights.size());
  return weights;
}

void check_injections(const Options& options, const std::vector<Parameter>& parameters, unsigned world) {
  for (const Injection& injection : options.injections) {
    find_parameter(parameters, injection.parameter);
    if (injection.rank >= world) {
      throw std::invalid_argument("the rank in --inject is " + std::to_string(injection.rank) +
                                  "; allowed: 0 to " + std::to_string(world - 1));
    }
  }
}

bool exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

}  // namespace

Trainer::Trainer(const Options& options, const Text& text, unsigned rank, unsigned world,
                 Communicator& communicator, Device* device)
    : options_(options),
      text_(text),
      rank_(rank),
      world_(world),
      sampler_(text, options.context, rank, world, options.seed),
      model_(shape_of(options, text), options.batch),
      gradients_(parameter_count(model_.parameters())) {
  check_injections(options, model_.parameters(), world);
  const std::vector<float> initial = initial_weights(model_.parameters(), options.seed);
  weights_ = rounded(initial);
  engine_ = make_engine(options, model_.parameters(), initial, rank, world, communicator, device);
  const Checkpoint checkpoint = resume();
  engine_->start(checkpoint.judge, done_);
  batch_.inputs.resize(options.batch * options.context);
  batch_.targets.resize(options.batch);
}

// Of what this rank is now; of a checkpoint that fits, all but step, run and gated.
CheckpointHeader Trainer::header() const {
  return {.rank = rank_,
          .world = world_,
          .zero1 = options_.zero1 ? 1u : 0u,
          .seed = options_.seed,
          .step = done_,
          .run = run_,
          .gated = engine_->judge() != nullptr && engine_->judge()->gated() ? 1u : 0u};
}

Checkpoint Trainer::resume() {
  if (options_.resume.empty() && options_.checkpoint.empty()) return {};
  Resumed resumed = resume_together(options_, header(), *engine_,
                                    [this](const Checkpoint& checkpoint) { restore(checkpoint); });
  run_ = resumed.run;
  return std::move(resumed.checkpoint);
}

void Trainer::restore(const Checkpoint& checkpoint) {
  if (checkpoint.weights.size() != weights_.size()) {
    throw std::invalid_argument("the model has " + std::to_string(weights_.size()) + " weights; allowed: " +
                                std::to_string(checkpoint.weights.size()) + ", for the checkpoint " +
                                options_.resume + " (--hidden, --layers, --context, --text)");
  }
  if (!engine_->restore(checkpoint.adam)) {
    throw std::runtime_error("the checkpoint " + options_.resume + " holds an optimizer of another size");
  }
  weights_ = checkpoint.weights;
  done_ = checkpoint.header.step;
}

void Trainer::run() {
  started_ = shown_ = Clock::now();
  const std::uint64_t first = done_ + 1;
  for (std::uint64_t step = first; step <= options_.steps; ++step) one_step(step);
  if (!options_.checkpoint.empty()) save();
  if (!options_.json.empty()) report();
  if (options_.linger_seconds > 0) linger();
}

void Trainer::one_step(std::uint64_t step) {
  const double scale = engine_->judge()->begin();
  fill_batch(step);
  losses_.push_back(model_.loss_and_gradients(weights_.data(), batch_, scale, gradients_.data()));
  inject_faults(step);
  const Verdict verdict = engine_->finish(gradients_.data(), weights_.data());
  done_ = step;
  if (options_.progress) show_progress(step, verdict);
}

void Trainer::fill_batch(std::uint64_t step) {
  for (std::size_t example = 0; example < options_.batch; ++example) {
    const std::size_t start = sampler_.start(step, example);
    for (std::size_t i = 0; i < options_.context; ++i) {
      batch_.inputs[example * options_.context + i] = text_.symbol(start + i);
    }
    batch_.targets[example] = text_.symbol(start + options_.context);
  }
}

void Trainer::inject_faults(std::uint64_t step) {
  for (const Injection& injection : options_.injections) {
    if (injection.step == step) inject_one(injection);
  }
  if (!options_.random_injections) return;
  const auto random = random_injection(*options_.random_injections, step, world_, model_.parameters());
  if (random) inject_one(*random);
}

// Every rank notes every fault; only the one it is meant for gets it.
void Trainer::inject_one(const Injection& injection) {
  injected_.push_back(injection);
  if (injection.rank != rank_) return;
  inject(injection.fault, find_parameter(model_.parameters(), injection.parameter), gradients_.data());
}

void Trainer::show_progress(std::uint64_t step, const Verdict& verdict) {
  if (verdict.row.skip) show_skip(verdict);
  if (rank_ != 0) return;
  const bool due = Clock::now() - shown_ > std::chrono::seconds(1);
  if (!due && step != 1 && step != options_.steps) return;
  shown_ = Clock::now();
  const double seconds = std::chrono::duration<double>(shown_ - started_).count();
  std::printf("%6.1f s  step %llu of %llu  loss %.3f  scale %.10g  norm %.3f\n", seconds,
              static_cast<unsigned long long>(step), static_cast<unsigned long long>(options_.steps),
              losses_.back(), verdict.row.scale, verdict.row.norm);
  flush_standard_output();
}

// Rank 0 tells the decision; a rank with a bad gradient of its own tells which parameter it was.
// Without a gate decisions differ, so everyone tells its own.
void Trainer::show_skip(const Verdict& verdict) {
  const auto step = static_cast<unsigned long long>(verdict.row.step);
  if (rank_ == 0 || !engine_->judge()->gated()) {
    std::printf("step %llu skipped: %s at scale %.10g", step, verdict.row.reason.c_str(), verdict.row.scale);
    if (verdict.blamed >= 0) std::printf(", from rank %d", verdict.blamed);
    if (verdict.blamed == -2) std::printf(", from several ranks");
    std::printf("\n");
  }
  if (verdict.blamed == static_cast<int>(rank_)) {
    for (const OffenderRow& row : engine_->judge()->offenders()) {
      if (row.step != verdict.row.step) continue;
      std::printf("step %llu: %s in my gradient of %s\n", step, row.nan ? "nan" : "inf",
                  row.parameter.c_str());
    }
  }
  flush_standard_output();
}

void Trainer::save() {
  write_checkpoint(path_of_rank(options_.checkpoint, rank_),
                   {header(), weights_, engine_->optimizer(), engine_->judge()->save()});
}

void Trainer::report() {
  RankReport report;
  report.rank = rank_;
  report.world = world_;
  report.gated = engine_->judge()->gated();
  report.cuda = options_.cuda;
  report.first_step = done_ + 1 - losses_.size();
  report.steps = engine_->judge()->steps();
  report.offenders = engine_->judge()->offenders();
  report.injections = injected_;
  report.losses = losses_;
  report.weights_checksum = checksum(weights_);
  report.unigram_entropy = text_.unigram_entropy();
  report.metrics_url = engine_->judge()->metrics_url();
  report.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  write_report(path_of_rank(options_.json, rank_), report);
}

void Trainer::linger() const {
  const auto until = Clock::now() + std::chrono::duration<double>(options_.linger_seconds);
  while (Clock::now() < until) {
    if (!options_.json.empty() && exists(options_.json + ".done")) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace stepgate::charlm

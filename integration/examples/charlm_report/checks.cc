#include "integration/examples/charlm_report/checks.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace stepgate::charlm_report {
namespace {

constexpr std::size_t kWindow = 20;
constexpr double kLearned = 0.8;  // of the first losses

std::string figures(const char* format, double a, double b) {
  char text[128];
  std::snprintf(text, sizeof text, format, a, b);
  return text;
}

std::string at_step(std::uint64_t step) {
  return "step " + std::to_string(step);
}

Check every_rank_gated(const Run& run) {
  for (const Rank& rank : run.ranks) {
    if (!rank.gated)
      return {"StepGate decides on every rank", false, "not on rank " + std::to_string(rank.rank)};
  }
  return {"StepGate decides on every rank", true, std::to_string(run.ranks.size()) + " ranks"};
}

Check every_step_recorded(const Run& run, std::uint64_t steps) {
  const std::string what = "every rank has a record of every step";
  for (const Rank& rank : run.ranks) {
    const std::uint64_t expected = steps == 0 ? rank.losses.size() : steps;
    if (rank.steps.size() != expected || expected == 0) {
      return {what, false,
              "rank " + std::to_string(rank.rank) + " has " + std::to_string(rank.steps.size()) + " of " +
                  std::to_string(expected)};
    }
    for (std::size_t i = 1; i < rank.steps.size(); ++i) {
      if (rank.steps[i].step != rank.steps[i - 1].step + 1) {
        return {what, false,
                "rank " + std::to_string(rank.rank) + " after " + at_step(rank.steps[i - 1].step)};
      }
    }
  }
  return {what, true, std::to_string(run.ranks[0].steps.size()) + " steps"};
}

Check same_decisions(const Run& run) {
  const std::string what = "decision, scale and norm are the same on all ranks in every step";
  const std::vector<Step>& first = run.ranks[0].steps;
  for (const Rank& rank : run.ranks) {
    const auto [a, b] = std::mismatch(first.begin(), first.end(), rank.steps.begin(), rank.steps.end());
    if (a != first.end() || b != rank.steps.end()) {
      const std::string where = a != first.end() ? at_step(a->step) : "the last step";
      return {what, false, "rank " + std::to_string(rank.rank) + " differs from rank 0 at " + where};
    }
  }
  return {what, true, ""};
}

Check same_weights(const Run& run) {
  const std::string what = "the weights end up the same on all ranks";
  for (const Rank& rank : run.ranks) {
    if (rank.weights_checksum != run.ranks[0].weights_checksum) {
      return {what, false,
              "rank " + std::to_string(rank.rank) + " has " + rank.weights_checksum + ", rank 0 " +
                  run.ranks[0].weights_checksum};
    }
  }
  return {what, true, run.ranks[0].weights_checksum};
}

const Step* find_step(const Rank& rank, std::uint64_t step) {
  for (const Step& entry : rank.steps) {
    if (entry.step == step) return &entry;
  }
  return nullptr;
}

bool was_injected(const Run& run, std::uint64_t step) {
  return std::any_of(run.injections.begin(), run.injections.end(),
                     [&](const Fault& fault) { return fault.step == step; });
}

Check model_overflows_first(const Run& run) {
  const std::string what = "the first skip comes from the model: its scale overflows fp16";
  for (const Step& step : run.ranks[0].steps) {
    if (!step.skip) continue;
    const bool overflow = step.reason == "nan" || step.reason == "inf";
    return {what, overflow && !was_injected(run, step.step),
            at_step(step.step) + ", " + step.reason + " at scale " +
                std::to_string(static_cast<long long>(step.scale))};
  }
  return {what, false, "no step was skipped"};
}

Check injection_caught(const Run& run, const Fault& fault) {
  const std::string what = "the injected " + fault.kind + " is skipped on all ranks and blamed on rank " +
                           std::to_string(fault.rank) + ", " + fault.parameter;
  for (const Rank& rank : run.ranks) {
    const Step* step = find_step(rank, fault.step);
    if (step == nullptr || !step->skip || (fault.kind == "nan" && step->reason != "nan")) {
      return {what, false, at_step(fault.step) + " on rank " + std::to_string(rank.rank)};
    }
  }
  const std::vector<Fault> blamed = all_offenders(run);
  if (std::find(blamed.begin(), blamed.end(), fault) == blamed.end()) {
    return {what, false, "nobody is blamed for it at " + at_step(fault.step)};
  }
  return {what, true, at_step(fault.step)};
}

double mean_of(const std::vector<double>& values, std::size_t first, std::size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(count), 0.0) / static_cast<double>(count);
}

void check_learning(const Run& run, std::vector<Check>& checks) {
  const std::vector<double> losses = mean_losses(run);
  if (losses.size() < 2 * kWindow) {
    checks.push_back({"the model learns", false, "fewer than 40 steps"});
    return;
  }
  const double early = mean_of(losses, 0, kWindow);
  const double late = mean_of(losses, losses.size() - kWindow, kWindow);
  checks.push_back({"the loss of the last 20 steps is under 0.8 of the first 20", late < kLearned * early,
                    figures("%.3f, was %.3f", late, early)});
  checks.push_back({"and under the text's unigram entropy", late < run.unigram_entropy,
                    figures("%.3f, entropy %.3f nats", late, run.unigram_entropy)});
}

}  // namespace

std::vector<Check> check_run(const Run& run, const Expectations& expectations) {
  std::vector<Check> checks;
  checks.push_back(every_rank_gated(run));
  checks.push_back(every_step_recorded(run, expectations.steps));
  checks.push_back(same_decisions(run));
  checks.push_back(same_weights(run));
  if (expectations.model_overflow) checks.push_back(model_overflows_first(run));
  for (const Fault& fault : run.injections) {
    if (fault.kind != "underflow") checks.push_back(injection_caught(run, fault));
  }
  check_learning(run, checks);
  return checks;
}

bool all_hold(const std::vector<Check>& checks) {
  return std::all_of(checks.begin(), checks.end(), [](const Check& check) { return check.holds; });
}

}  // namespace stepgate::charlm_report

#include "integration/examples/charlm/naive_judge.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace stepgate::charlm {

NaiveJudge::NaiveJudge(const JudgeContext& context)
    : gradients_(context.gradients),
      interval_(context.options.interval.value_or(2000)),
      max_norm_(context.options.max_norm.value_or(0)),
      state_{context.options.initial_scale.value_or(65536), 0, 0} {
  if (context.state.empty()) return;
  if (context.state.size() != sizeof state_) {
    throw std::runtime_error("the checkpoint holds a gate's state, but no plugin answers here");
  }
  std::memcpy(&state_, context.state.data(), sizeof state_);
}

Verdict NaiveJudge::end() {
  const OwnCheck check = gradients_.check_own();
  Verdict verdict;
  verdict.row = {++state_.step, check.nan || check.inf, check.nan ? "nan" : (check.inf ? "inf" : "none"),
                 state_.scale, std::numeric_limits<double>::quiet_NaN()};
  if (!verdict.row.skip) {
    verdict.row.norm = std::sqrt(check.sum_of_squares) * gradients_.factor() / state_.scale;
    verdict.grad_scale = grad_scale(verdict.row.norm);
  }
  move_scale(verdict.row.skip);
  steps_.push_back(verdict.row);
  return verdict;
}

float NaiveJudge::grad_scale(double norm) const {
  const double clip = max_norm_ > 0 ? std::min(1.0, max_norm_ / (norm + 1e-6)) : 1.0;
  return static_cast<float>(state_.scale / clip);
}

void NaiveJudge::move_scale(bool overflow) {
  if (overflow) {
    state_.scale *= 0.5;
    state_.good_steps = 0;
  } else if (++state_.good_steps >= interval_) {
    state_.scale *= 2;
    state_.good_steps = 0;
  }
}

std::vector<unsigned char> NaiveJudge::save() {
  std::vector<unsigned char> bytes(sizeof state_);
  std::memcpy(bytes.data(), &state_, sizeof state_);
  return bytes;
}

}  // namespace stepgate::charlm

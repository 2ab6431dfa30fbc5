#include "integration/examples/charlm/judge.h"

#include "integration/examples/charlm/gated_judge.h"
#include "integration/examples/charlm/naive_judge.h"

namespace stepgate::charlm {

std::unique_ptr<Judge> make_judge(const JudgeContext& context) {
  if (std::unique_ptr<Judge> gated = GatedJudge::try_make(context)) return gated;
  return std::make_unique<NaiveJudge>(context);
}

}  // namespace stepgate::charlm

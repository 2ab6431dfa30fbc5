// decide(): a behaviour table of every row, then every combination of causes.
#include "tests/collectives/core/support.h"

namespace stepgate::test {
namespace {

constexpr std::uint32_t kWorld = 4;

Fields healthy(double norm = 3) {
  std::vector<Fields> ranks;
  for (std::uint32_t r = 0; r < kWorld; ++r) {
    SummaryInput in;
    in.rank = r;
    in.norm_squares = r == 0 ? norm * norm : 0;
    in.step = 12;
    in.digest_a = 77;
    in.digest_b = 88;
    in.attributing = 1;
    Fields f;
    build_summary(in, f.data());
    ranks.push_back(f);
  }
  return sum_of(ranks);
}

StepPolicy policy() {
  StepPolicy p;
  p.world = kWorld;
  return p;
}

Decision judge(const Fields& f, const StepPolicy& p, double scale = 1024) {
  return decide(f.data(), scale, p, 77, 88);
}

void expect_skip(const Decision& d) {
  EXPECT_EQ(d.skip, 1u);
  EXPECT_EQ(d.found_inf, 1.0f);
  EXPECT_EQ(d.multiplier, 1.0f);
  EXPECT_EQ(d.grad_scale, 1.0f);
  EXPECT_EQ(d.clip, 1.0);
  EXPECT_EQ(d.norm, 0.0) << "no norm is reported for a skipped step";
}

TEST(Decide, AppliesAHealthyStep) {
  const Decision d = judge(healthy(), policy());
  EXPECT_EQ(d.skip, 0u);
  EXPECT_EQ(d.found_inf, 0.0f);
  EXPECT_EQ(d.reason, Reason::kNone);
  EXPECT_EQ(d.norm, 3.0);
  EXPECT_EQ(d.clip, 1.0);
  EXPECT_EQ(d.scale, 1024.0);
  EXPECT_EQ(d.multiplier, 0x1p-10f);
  EXPECT_EQ(d.grad_scale, 1024.0f);
  EXPECT_EQ(d.overflow + d.released + d.diverged, 0u);
  EXPECT_EQ(d.odd_rank, -1);
}

// In the order of precedence.
struct Cause {
  const char* what;
  Reason reason;
  std::uint32_t overflow;
  void (*spoil)(Fields& f, StepPolicy& p);
};
const Cause kCauses[] = {
    {"nan", Reason::kNan, 1, [](Fields& f, StepPolicy&) { f[kSumNan] = 1; }},
    {"nan before the reduction", Reason::kNan, 1, [](Fields& f, StepPolicy&) { f[kSumLocalNan] = 1; }},
    {"inf", Reason::kInf, 1, [](Fields& f, StepPolicy&) { f[kSumInf] = 5; }},
    {"inf before the reduction", Reason::kInf, 1, [](Fields& f, StepPolicy&) { f[kSumLocalInf] = 1; }},
    {"veto", Reason::kVeto, 0, [](Fields& f, StepPolicy&) { f[kSumVeto] = 2; }},
    {"norm does not fit", Reason::kNorm, 0, [](Fields& f, StepPolicy&) { f[kSumNormOverflow] = 1; }},
    {"norm above its limit", Reason::kNorm, 0, [](Fields&, StepPolicy& p) { p.skip_norm = 2.999; }},
};

TEST(Decide, EveryCombinationOfCausesByPrecedence) {
  const std::size_t causes = std::size(kCauses);
  for (std::size_t mask = 1; mask < std::size_t{1} << causes; ++mask) {
    Fields f = healthy();
    StepPolicy p = policy();
    const Cause* first = nullptr;
    for (std::size_t i = 0; i < causes; ++i) {
      if ((mask >> i & 1u) == 0) continue;
      kCauses[i].spoil(f, p);
      if (first == nullptr) first = &kCauses[i];
    }
    SCOPED_TRACE(std::string("first of the causes: ") + first->what + ", mask " + std::to_string(mask));
    const Decision d = judge(f, p);
    expect_skip(d);
    EXPECT_EQ(d.reason, first->reason);
    EXPECT_EQ(d.overflow, first->overflow);
    EXPECT_EQ(d.released, 0u);
  }
}

TEST(Decide, ANormOnItsLimitIsApplied) {
  StepPolicy p = policy();
  p.skip_norm = 3;
  EXPECT_EQ(judge(healthy(), p).skip, 0u);
  p.skip_norm = 0;
  EXPECT_EQ(judge(healthy(1e30), p).skip, 0u) << "0 means not set";
}

struct Release {
  const char* what;
  void (*spoil)(Fields& f);
};

TEST(Decide, ReleasesBeforeAnyOtherCause) {
  const Release rows[] = {
      {"degrade", [](Fields& f) { f[kSumDegrade] = 1; }},
      {"undecided", [](Fields& f) { f[kSumUndecided] = 1; }},
      {"one contributor missing", [](Fields& f) { f[kSumContributors] -= 1; }},
      {"one too many", [](Fields& f) { f[kSumContributors] += 1; }},
      {"contributors not a number", [](Fields& f) { f[kSumContributors] = NAN; }},
      {"a digit not a number", [](Fields& f) { f[kSumLimb0 + 7] = NAN; }},
      {"a negative count", [](Fields& f) { f[kSumZeros] = -1; }},
  };
  for (const Release& row : rows) {
    for (const bool inf_too : {false, true}) {
      SCOPED_TRACE(row.what);
      Fields f = healthy();
      if (inf_too) f[kSumInf] = 1;
      row.spoil(f);
      const Decision d = judge(f, policy());
      expect_skip(d);
      EXPECT_EQ(d.released, 1u);
      EXPECT_EQ(d.reason, Reason::kVeto);
      EXPECT_EQ(d.overflow, 0u) << "the scale is frozen";
    }
  }
}

struct HandOut {
  UnscaleMode mode;
  double scale, norm, max_norm;
  double multiplier, grad_scale, clip;
};

TEST(Decide, HandsOutByModeRoundedOnce) {
  const double half = 1 / (2 + 1e-6);
  const HandOut rows[] = {
      {UnscaleMode::kDeferred, 1024, 2, 1, half / 1024, 1024 / half, half},
      {UnscaleMode::kDeferred, 1024, 2, 3, 1.0 / 1024, 1024, 1},
      {UnscaleMode::kDeferred, 3, 2, 0, static_cast<double>(static_cast<float>(1.0 / 3)), 3, 1},
      {UnscaleMode::kApply, 1024, 2, 1, half / 1024, 1024 / half, half},
      {UnscaleMode::kInHook, 1024, 2, 1, half, 1 / half, half},
      {UnscaleMode::kInHook, 1024, 2, 3, 1, 1, 1},
  };
  for (const HandOut& row : rows) {
    StepPolicy p = policy();
    p.unscale = row.mode;
    p.max_norm = row.max_norm;
    const Decision d = judge(healthy(row.norm), p, row.scale);
    EXPECT_EQ(d.skip, 0u);
    EXPECT_EQ(d.clip, row.clip);
    EXPECT_EQ(d.multiplier, static_cast<float>(row.multiplier));
    EXPECT_EQ(d.grad_scale, static_cast<float>(row.grad_scale));
  }
}

TEST(Decide, SkipsWhatFp32CannotHandOut) {
  struct Unusable {
    double scale, norm, max_norm;
    UnscaleMode mode;
  };
  const Unusable rows[] = {
      {0, 1, 0, UnscaleMode::kDeferred},           // torch's scale at zero
      {0x1p-128, 1, 0, UnscaleMode::kDeferred},    // its inverse is infinite
      {0x1p-128, 1, 0, UnscaleMode::kInHook},      // the scan multiplied by it
      {0x1p128, 1, 0, UnscaleMode::kDeferred},     // the divisor is infinite
      {0x1p100, 1e30, 1, UnscaleMode::kDeferred},  // the product is zero, the divisor infinite
      {1, 1e47, 1, UnscaleMode::kInHook},         {static_cast<double>(NAN), 1, 0, UnscaleMode::kDeferred},
  };
  for (const Unusable& row : rows) {
    StepPolicy p = policy();
    p.unscale = row.mode;
    p.max_norm = row.max_norm;
    const Decision d = judge(healthy(row.norm), p, row.scale);
    SCOPED_TRACE(row.scale);
    expect_skip(d);
    EXPECT_EQ(d.reason, Reason::kNorm);
    EXPECT_EQ(d.overflow, 0u);
  }
}

Fields with_digest(std::uint32_t odd, std::uint32_t value) {
  std::vector<Fields> ranks;
  for (std::uint32_t r = 0; r < kWorld; ++r) {
    SummaryInput in;
    in.rank = r;
    in.digest_a = r == odd ? value : 77;
    in.digest_b = 88;
    Fields f;
    build_summary(in, f.data());
    ranks.push_back(f);
  }
  return sum_of(ranks);
}

TEST(Decide, DivergenceByPolicy) {
  const Fields f = with_digest(2, 78);
  for (const auto policy_of :
       {DivergencePolicy::kReport, DivergencePolicy::kVeto, DivergencePolicy::kError}) {
    StepPolicy p = policy();
    p.divergence = policy_of;
    const Decision d = judge(f, p);
    EXPECT_EQ(d.diverged, 1u);
    EXPECT_EQ(d.odd_rank, 2);
    EXPECT_EQ(d.skip, policy_of == DivergencePolicy::kReport ? 0u : 1u);
    EXPECT_EQ(d.overflow, 0u);
  }
  const Decision odd_one = decide(f.data(), 1024, policy(), 78, 88);
  EXPECT_EQ(odd_one.odd_rank, 2) << "the odd rank finds itself";
}

TEST(Decide, StepOrSetMismatchDivergesWithoutNaming) {
  for (const int field : {int{kSumStep}, int{kSumSet}}) {
    Fields f = healthy();
    f[static_cast<std::size_t>(field)] += 1;
    const Decision d = judge(f, policy());
    EXPECT_EQ(d.diverged, 1u);
    EXPECT_EQ(d.odd_rank, -1);
    expect_skip(d);
    EXPECT_EQ(d.reason, Reason::kVeto);
  }
}

TEST(Decide, OverflowAndDivergenceTogetherStayAnOverflow) {
  Fields f = with_digest(1, 9);
  f[kSumInf] = 1;
  const Decision d = judge(f, policy());
  EXPECT_EQ(d.reason, Reason::kInf);
  EXPECT_EQ(d.overflow, 1u);
  EXPECT_EQ(d.diverged, 1u);
}

}  // namespace
}  // namespace stepgate::test

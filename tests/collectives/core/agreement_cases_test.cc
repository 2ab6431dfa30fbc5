// The recorded agreement cases that need the rules alone: kinds agree, decision and trajectory. The
// kinds norm, unscale and stats speak of scans and belong to the device's tests.
#include <functional>
#include <map>
#include <set>

#include "tests/collectives/core/support.h"
#include "tests/collectives/core/vectors.h"

namespace stepgate::test {
namespace {

using nlohmann::json;

double number(const json& v) {
  if (!v.is_string()) return v;
  const std::string text = v;
  if (text == "nan") return NAN;
  return text == "inf" ? INFINITY : -INFINITY;
}

std::vector<double> values_of(const json& list) {
  std::vector<double> values;
  for (const json& v : list) values.push_back(number(v));
  return values;
}

// A key that nobody reads would make a case pass for the wrong reason.
void expect_only(const json& object, std::set<std::string> known) {
  for (const auto& [key, value] : object.items()) EXPECT_TRUE(known.count(key) != 0) << "unread key " << key;
}

ScalerParams case_params(const json& c) {
  ScalerRule rule{};
  EXPECT_TRUE(parse_scaler_rule(c.value("rule", std::string("torch")).c_str(), &rule));
  ScalerParams p = default_params(rule);
  if (c.value("unscaled", false)) p = default_params(ScalerRule::kNone);
  p.initial_scale = c.value("scale", p.initial_scale);
  p.interval = c.value("interval", p.interval);
  p.minimum = c.value("minimum_scale", p.minimum);
  EXPECT_EQ(invalid_params(p), nullptr);
  return p;
}

struct Job {
  std::vector<GateBlock> ranks;
  std::vector<Fields> sent;
};

Job summarized_job(const json& c) {
  Job job;
  const json& grads = c.at("grads");
  const auto world = static_cast<std::uint32_t>(grads.size());
  for (std::uint32_t r = 0; r < world; ++r) {
    job.ranks.push_back(new_block(case_params(c), r, world));
    GateBlock& g = job.ranks.back();
    if (c.contains("growth_tracker")) g.scaler.growth_tracker = c["growth_tracker"][r];
    begin_step(g);
    g.veto = c.contains("veto") && c["veto"][r].get<bool>();
    RangeSlot slot = slot_of(values_of(grads[r]));
    slot.counted = c.at("sharded").get<bool>() || r == 0;  // replicas: the lowest rank counts
    Fields f;
    summarize_set(g, 0, &slot, 1, f.data());
    job.sent.push_back(f);
  }
  return job;
}

// Every permutation, summed as a chain and as a tree.
void expect_same_sum_in_every_order(const std::vector<Fields>& sent) {
  std::vector<std::size_t> order = identity_order(sent.size());
  const Fields first = sum_in_order(sent, order);
  const bool few = sent.size() <= 4;
  do {
    ASSERT_TRUE(same_bits(first, sum_in_order(sent, order)));
    if (few) {
      ASSERT_TRUE(same_bits(first, sum_as_tree(sent, order)));
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

void expect_rank(const json& want, const GateBlock& g) {
  const Decision& d = g.sets[0].decision;
  EXPECT_EQ(d.skip != 0, want.contains("skip") && want["skip"][g.rank].get<bool>());
  EXPECT_EQ(g.sets[0].outputs.found_inf, d.skip != 0 ? 1.0f : 0.0f)
      << "exactly one, however many ranks offend";
  if (want.contains("scale_after")) {
    EXPECT_EQ(g.scaler.scale, want["scale_after"][g.rank].get<double>());
  }
  if (want.contains("reason")) {
    EXPECT_EQ(reason_name(d.reason), want["reason"].get<std::string>());
  }
  if (want.contains("growth_tracker_after")) {
    EXPECT_EQ(g.scaler.growth_tracker, want["growth_tracker_after"][g.rank].get<std::int64_t>());
  }
  if (want.contains("applied_steps_after")) {
    EXPECT_EQ(d.skip != 0 ? 0 : 1, want["applied_steps_after"].get<int>());
  }
  if (!want.contains("norm")) return;
  const double norm = want["norm"];
  EXPECT_NEAR(d.norm, norm, 1e-6 * norm);
}

void run_agree(const json& c) {
  expect_only(
      c, {"name", "kind", "sharded", "scale", "rule", "grads", "want", "veto", "growth_tracker", "unscaled"});
  expect_only(c["want"],
              {"skip", "scale_after", "reason", "applied_steps_after", "found_inf_is_exactly_one", "norm",
               "growth_tracker_after", "same_bits_on_all_ranks_for_every_order_of_summation"});
  Job job = summarized_job(c);
  expect_same_sum_in_every_order(job.sent);
  const Fields sum = sum_of(job.sent);
  for (GateBlock& g : job.ranks) {
    decide_set(g, 0, sum.data());
    update_scale(g);
    expect_rank(c["want"], g);
    EXPECT_EQ(bits(g.sets[0].decision.norm), bits(job.ranks[0].sets[0].decision.norm));
  }
}

void run_decision(const json& c) {
  expect_only(c, {"name", "kind", "scale", "unscaled_norm", "max_norm", "want"});
  expect_only(c["want"], {"multiplier", "grad_scale"});
  const double norm = c["unscaled_norm"];
  SummaryInput in;
  in.norm_squares = norm * norm;
  Fields f;
  build_summary(in, f.data());
  StepPolicy policy;
  policy.max_norm = c["max_norm"];
  const Decision d = decide(f.data(), c["scale"], policy, 0, 0);
  EXPECT_EQ(d.skip, 0u);
  const double multiplier = c["want"]["multiplier"], grad_scale = c["want"]["grad_scale"];
  EXPECT_NEAR(static_cast<double>(d.multiplier), multiplier, 1e-6 * multiplier);
  EXPECT_NEAR(static_cast<double>(d.grad_scale), grad_scale, 1e-6 * grad_scale);
}

struct Trajectory {
  std::vector<double> applied_gradient, scale_after_step;
  std::vector<bool> at_minimum, norm_reported;
  int steps_at_minimum = 0;
};

Trajectory drive(GateBlock& g, const std::string& pattern, double true_gradient) {
  Trajectory t;
  for (const char c : pattern) {
    t.steps_at_minimum += at_minimum(g.params, g.scaler);
    const double stored = true_gradient * static_cast<double>(g.sets[0].outputs.scale);
    RangeSlot slot = slot_of({c == 'x' ? static_cast<double>(INFINITY) : stored});
    begin_step(g);
    Fields f;
    summarize_set(g, 0, &slot, 1, f.data());
    decide_set(g, 0, f.data());
    update_scale(g);
    const Decision& d = g.sets[0].decision;
    if (d.skip == 0) t.applied_gradient.push_back(stored * static_cast<double>(g.sets[0].outputs.multiplier));
    t.scale_after_step.push_back(g.scaler.scale);
    t.at_minimum.push_back(at_minimum(g.params, g.scaler));
    t.norm_reported.push_back(d.skip == 0 && d.norm > 0);
  }
  return t;
}

void run_trajectory(const json& c) {
  expect_only(c, {"name", "kind", "rule", "interval", "scale", "true_gradient", "steps", "pattern", "restore",
                  "minimum_scale", "want"});
  expect_only(c["want"],
              {"applied_gradient", "scale_after_step", "at_minimum", "steps_at_minimum", "norm_reported"});
  GateBlock g = new_block(case_params(c), 0, 1);
  if (c.contains("restore")) {
    expect_only(c["restore"], {"scale", "growth_tracker"});
    g.scaler.scale = c["restore"]["scale"];
    g.scaler.growth_tracker = c["restore"]["growth_tracker"];
  }
  g.sets[0].outputs.scale = static_cast<float>(g.scaler.scale);
  const std::string pattern = c.value("pattern", std::string(c.value("steps", 0u), '.'));
  ASSERT_FALSE(pattern.empty());
  const Trajectory t = drive(g, pattern, c.value("true_gradient", 1.0));
  const json& want = c["want"];
  if (want.contains("applied_gradient")) {
    EXPECT_EQ(json(t.applied_gradient), want["applied_gradient"]);
  }
  if (want.contains("scale_after_step")) {
    EXPECT_EQ(json(t.scale_after_step), want["scale_after_step"]);
  }
  if (want.contains("at_minimum")) {
    EXPECT_EQ(json(t.at_minimum), want["at_minimum"]);
  }
  if (want.contains("steps_at_minimum")) {
    EXPECT_EQ(t.steps_at_minimum, want["steps_at_minimum"].get<int>());
  }
  if (want.contains("norm_reported")) {
    EXPECT_EQ(json(t.norm_reported), want["norm_reported"]);
  }
}

TEST(AgreementCases, AgreeDecisionAndTrajectory) {
  const std::map<std::string, std::function<void(const json&)>> run = {
      {"agree", run_agree}, {"decision", run_decision}, {"trajectory", run_trajectory}};
  const json vectors = load_vectors("agreement_cases.json");
  std::map<std::string, int> ran;
  for (const json& c : vectors.at("cases")) {
    SCOPED_TRACE(std::string(c.at("name")));
    const auto kind = run.find(c.at("kind"));
    if (kind == run.end()) continue;
    kind->second(c);
    ++ran[kind->first];
  }
  EXPECT_EQ(ran, (std::map<std::string, int>{{"agree", 7}, {"decision", 1}, {"trajectory", 5}}));
}

}  // namespace
}  // namespace stepgate::test

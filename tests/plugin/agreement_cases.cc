#include "tests/plugin/agreement_cases.h"

#include <cstring>
#include <set>

#include "tests/collectives/core/vectors.h"
#include "tests/plugin/case_buffer.h"

namespace stepgate::test {
namespace {

using nlohmann::json;

// Keys that nobody reads would make a case pass for the wrong reason.
void expect_only(const json& object, const std::set<std::string>& known) {
  for (const auto& [key, value] : object.items()) EXPECT_TRUE(known.count(key) != 0) << "unread key " << key;
}

ScalerParams params_of(const json& c) {
  ScalerRule rule{};
  EXPECT_TRUE(parse_scaler_rule(c.value("rule", std::string("torch")).c_str(), &rule));
  if (c.value("unscaled", false)) rule = ScalerRule::kNone;
  ScalerParams p = default_params(rule);
  p.initial_scale = c.value("scale", p.initial_scale);
  p.interval = c.value("interval", p.interval);
  p.minimum = c.value("minimum_scale", p.minimum);
  EXPECT_EQ(invalid_params(p), nullptr);
  return p;
}

CaseWorld world_of(const json& c, int ranks) {
  CaseWorld o;
  o.ranks = ranks;
  o.params = params_of(c);
  o.policy.max_norm = c.value("max_norm", 0.0);
  return o;
}

// State arrives as it does after a restart: through a blob.
void restore(CaseRank& r, double scale, std::int64_t growth_tracker) {
  std::size_t bytes = 0;
  ASSERT_EQ(r.gate().state_save(nullptr, &bytes), STEPGATE_OK);
  std::vector<unsigned char> blob(bytes);
  ASSERT_EQ(r.gate().state_save(blob.data(), &bytes), STEPGATE_OK);
  gate::SavedState state;
  std::string error;
  ASSERT_TRUE(gate::read_state_blob(blob.data(), bytes, &state, &error)) << error;
  state.scaler.scale = scale;
  state.scaler.growth_tracker = growth_tracker;
  gate::write_state_blob(state, blob.data());
  ASSERT_EQ(r.gate().state_load(blob.data(), bytes), STEPGATE_OK) << gate::last_error();
}

void begin(CaseRank& r) {
  EXPECT_EQ(r.gate().step_begin(r.stream()), STEPGATE_OK) << gate::last_error();
}

Step step(CaseRank& r) {
  begin(r);
  return r.end();
}

stepgate_scaler_info info_of(CaseRank& r) {
  stepgate_scaler_info info{};
  info.size = sizeof info;
  EXPECT_EQ(r.gate().state(&info), STEPGATE_OK);
  return info;
}

// ---- agree

struct Agreed {
  Step step;
  stepgate_scaler_info info{};
};

std::vector<Agreed> agree_once(const RunCase& run, const json& c, std::uint64_t seed) {
  const json& grads = c.at("grads");
  CaseWorld o = world_of(c, static_cast<int>(grads.size()));
  o.seed = seed;
  std::vector<Agreed> all(grads.size());
  run(o, [&](CaseRank& r) {
    const auto rank = static_cast<std::size_t>(r.rank());
    Buffer gradient(r, c, numbers(grads[rank]));
    gradient.declare(c.at("sharded").get<bool>() || rank == 0);
    if (c.contains("growth_tracker")) restore(r, c["scale"], c["growth_tracker"][rank]);
    EXPECT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    begin(r);
    if (c.contains("veto") && c["veto"][rank].get<bool>()) {
      EXPECT_EQ(r.gate().veto(r.stream()), STEPGATE_OK);
    }
    all[rank] = {r.end(), {}};
    all[rank].info = info_of(r);
  });
  return all;
}

void expect_agreed(const json& want, std::size_t rank, const Agreed& got) {
  const stepgate_decision& d = got.step.decision;
  EXPECT_EQ(got.step.status, STEPGATE_OK) << got.step.error;
  EXPECT_EQ(d.skip != 0, want.contains("skip") && want["skip"][rank].get<bool>());
  EXPECT_EQ(got.step.found_inf, d.skip ? 1.0f : 0.0f) << "exactly one, however many ranks offend";
  if (want.contains("scale_after")) {
    EXPECT_EQ(got.info.scale, want["scale_after"][rank].get<double>());
    EXPECT_EQ(d.next_scale, want["scale_after"][rank].get<double>());
  }
  if (want.contains("reason")) {
    EXPECT_EQ(reason_name(static_cast<Reason>(d.reason)), want["reason"].get<std::string>());
  }
  if (want.contains("growth_tracker_after")) {
    EXPECT_EQ(got.info.growth_tracker, want["growth_tracker_after"][rank].get<std::int64_t>());
  }
  if (want.contains("applied_steps_after")) {
    EXPECT_EQ(got.info.applied, want["applied_steps_after"].get<std::uint64_t>());
  }
  if (want.contains("norm")) {
    EXPECT_NEAR(d.norm, want["norm"].get<double>(), 1e-6 * want["norm"].get<double>());
  }
}

void run_agree(const RunCase& run, const json& c) {
  expect_only(
      c, {"name", "kind", "sharded", "scale", "rule", "grads", "want", "veto", "growth_tracker", "unscaled"});
  expect_only(c["want"],
              {"skip", "scale_after", "reason", "applied_steps_after", "found_inf_is_exactly_one", "norm",
               "growth_tracker_after", "same_bits_on_all_ranks_for_every_order_of_summation"});
  std::mt19937_64 random = seeded("orders of summation");
  std::uint64_t first = 0;
  for (int order = 0; order < 6; ++order) {
    const std::vector<Agreed> all = agree_once(run, c, random());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      SCOPED_TRACE("rank " + std::to_string(rank) + ", order " + std::to_string(order));
      expect_agreed(c["want"], rank, all[rank]);
      const std::uint64_t norm = bits(all[rank].step.decision.norm);
      if (order == 0 && rank == 0) first = norm;
      EXPECT_EQ(norm, first) << "not the same bits in every order of summation";
    }
  }
}

// ---- norm

void expect_norm(const json& want, std::size_t rank, const Step& s, const std::vector<double>& after) {
  if (want.contains("skip")) {
    EXPECT_EQ(s.decision.skip != 0, want["skip"][rank].get<bool>());
  }
  if (want.contains("norm")) {
    EXPECT_EQ(s.decision.skip, 0);
    EXPECT_NEAR(s.decision.norm, want["norm"].get<double>(), 1e-6 * want["norm"].get<double>());
  }
  if (want.contains("grads_after")) {
    EXPECT_EQ(after, numbers(want["grads_after"]));
  }
  if (!want.contains("each_after_clip")) return;
  const double each = static_cast<float>(want["each_after_clip"].get<double>());
  for (const double x : after) EXPECT_NEAR(x, each, 1e-6 * each);
}

void run_norm(const RunCase& run, const json& c) {
  expect_only(c, {"name", "kind", "sharded", "unscaled", "dtype", "grads", "max_norm", "want"});
  expect_only(c["want"], {"norm", "skip", "each_after_clip", "grads_after"});
  const json& grads = c.at("grads");
  CaseWorld o = world_of(c, static_cast<int>(grads.size()));
  o.policy.unscale = UnscaleMode::kApply;
  run(o, [&](CaseRank& r) {
    const auto rank = static_cast<std::size_t>(r.rank());
    Buffer gradient(r, c, numbers(grads[rank]));
    gradient.declare(c.value("sharded", false) || rank == 0);
    EXPECT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const Step s = step(r);
    EXPECT_EQ(s.status, STEPGATE_OK) << s.error;
    EXPECT_EQ(r.gate().apply(0, r.stream()), STEPGATE_OK) << gate::last_error();
    expect_norm(c["want"], rank, s, gradient.values());
  });
}

// ---- decision, trajectory, unscale: one rank

void run_decision(const RunCase& run, const json& c) {
  expect_only(c, {"name", "kind", "scale", "unscaled_norm", "max_norm", "want"});
  expect_only(c["want"], {"multiplier", "grad_scale"});
  run(world_of(c, 1), [&](CaseRank& r) {
    Buffer gradient(r, c, {c["unscaled_norm"].get<double>() * c["scale"].get<double>()});
    gradient.declare(true);
    EXPECT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    const Step s = step(r);
    ASSERT_TRUE(s.applies()) << s.error;
    const double multiplier = c["want"]["multiplier"], grad_scale = c["want"]["grad_scale"];
    EXPECT_NEAR(s.decision.multiplier, multiplier, 1e-6 * multiplier);
    EXPECT_NEAR(s.decision.grad_scale, grad_scale, 1e-6 * grad_scale);
  });
}

struct Trajectory {
  std::vector<double> applied_gradient, scale_after_step;
  std::vector<bool> at_minimum, norm_reported;
  int steps_at_minimum = 0;
};

Trajectory drive(CaseRank& r, const std::string& pattern, double true_gradient) {
  Trajectory t;
  Buffer gradient(r, json::object(), {0});
  gradient.declare(true);
  EXPECT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
  for (const char kind : pattern) {
    t.steps_at_minimum += info_of(r).at_minimum;
    const double scale = info_of(r).scale;
    begin(r);
    const double scaled = kind == 'x' ? kInf : true_gradient * scale;
    gradient.store({scaled});
    const Step s = r.end();
    EXPECT_EQ(s.status, STEPGATE_OK) << s.error;
    EXPECT_EQ(s.decision.scale, scale) << "the scale of its own backward";
    if (s.decision.skip == 0) t.applied_gradient.push_back(scaled * s.decision.multiplier);
    t.scale_after_step.push_back(s.decision.next_scale);
    t.at_minimum.push_back(info_of(r).at_minimum != 0);
    t.norm_reported.push_back(s.decision.norm > 0);  // false for NaN
  }
  return t;
}

void run_trajectory(const RunCase& run, const json& c) {
  expect_only(c, {"name", "kind", "rule", "interval", "scale", "true_gradient", "steps", "pattern", "restore",
                  "minimum_scale", "want"});
  expect_only(c["want"],
              {"applied_gradient", "scale_after_step", "at_minimum", "steps_at_minimum", "norm_reported"});
  run(world_of(c, 1), [&](CaseRank& r) {
    if (c.contains("restore")) restore(r, c["restore"]["scale"], c["restore"]["growth_tracker"]);
    const std::string pattern = c.value("pattern", std::string(c.value("steps", 0u), '.'));
    ASSERT_FALSE(pattern.empty());
    const Trajectory t = drive(r, pattern, c.value("true_gradient", 1.0));
    const json got = {{"applied_gradient", t.applied_gradient},
                      {"scale_after_step", t.scale_after_step},
                      {"at_minimum", t.at_minimum},
                      {"steps_at_minimum", t.steps_at_minimum},
                      {"norm_reported", t.norm_reported}};
    for (const auto& [name, value] : c["want"].items()) EXPECT_EQ(got[name], value) << name;
  });
}

void run_unscale(const RunCase& run, const json& c) {
  expect_only(c, {"name", "kind", "dtype", "scale", "grads", "want"});
  expect_only(c["want"], {"unscaled_fp32"});
  run(world_of(c, 1), [&](CaseRank& r) {
    Buffer gradient(r, c, numbers(c["grads"][0]));
    gradient.declare(true);
    EXPECT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    ASSERT_TRUE(step(r).applies());
    const Outputs* outputs = nullptr;
    ASSERT_EQ(r.gate().outputs(0, &outputs), STEPGATE_OK);
    void* const there = r.allocate(gradient.count * sizeof(float));
    ASSERT_EQ(r.device().apply(r.stream(), {.data = gradient.data,
                                            .count = gradient.count,
                                            .stored = gradient.type,
                                            .outputs = outputs,
                                            .out = there}),
              device::Code::kOk);
    const std::vector<unsigned char> bytes = r.load(there, gradient.count * sizeof(float));
    std::vector<float> out(gradient.count);
    std::memcpy(out.data(), bytes.data(), bytes.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      EXPECT_EQ(out[i], static_cast<float>(c["want"]["unscaled_fp32"][i].get<double>()));
    }
  });
}

// ---- stats: through the hooks, with the job's reduction in between

std::vector<std::vector<double>> inputs(const json& c) {
  std::vector<std::vector<double>> lists;
  if (c.contains("grads_before_cast")) {
    lists.emplace_back();
    for (const double x : numbers(c["grads_before_cast"])) lists[0].push_back(x * c["scale"].get<double>());
    return lists;
  }
  for (const json& list : c.at("grads")) lists.push_back(numbers(list));
  return lists;
}

GradStats stats_of(CaseRank& r, std::uint32_t range, ScanPhase phase) {
  std::vector<RangeRecord> records;
  r.gate().read_ranges(&records);
  for (const RangeRecord& record : records) {
    if (record.range == range && record.phase == static_cast<std::uint32_t>(phase)) return record.stats;
  }
  ADD_FAILURE() << "no record of range " << range << " in phase " << static_cast<int>(phase);
  return {};
}

void expect_stats(const json& want, CaseRank& r, std::uint32_t range, const Step& s) {
  const auto rank = static_cast<std::size_t>(r.rank());
  const GradStats local = stats_of(r, range, ScanPhase::kLocal);
  const GradStats reduced = stats_of(r, range, ScanPhase::kReduced);
  const std::map<std::string, std::uint64_t> counts = {{"zeros", reduced.zeros},
                                                       {"subnormals", reduced.subnormals},
                                                       {"overranges", reduced.overranges},
                                                       {"reduced_infs", reduced.inf},
                                                       {"reduced_nans", reduced.nan}};
  for (const auto& [name, got] : counts) {
    if (want.contains(name)) {
      EXPECT_EQ(got, want[name].get<std::uint64_t>()) << name;
    }
  }
  if (want.contains("local_infs")) {
    EXPECT_EQ(local.inf, want["local_infs"][rank].get<std::uint64_t>());
  }
  if (want.contains("skip")) {
    EXPECT_EQ(s.decision.skip != 0, want["skip"][rank].get<bool>());
  }
  if (want.contains("offending_rank")) {
    EXPECT_EQ(s.decision.offender, want["offending_rank"].get<int>());
  }
  if (want.contains("blamed")) {
    EXPECT_EQ(want["blamed"], "reduction");
    EXPECT_EQ(s.decision.offender, STEPGATE_RANK_REDUCTION);
  }
}

void run_stats(const RunCase& run, const json& c) {
  expect_only(c,
              {"name", "kind", "dtype", "compute_type", "scale", "grads", "grads_before_cast", "op", "want"});
  expect_only(c["want"], {"zeros", "subnormals", "overranges", "local_infs", "reduced_infs", "reduced_nans",
                          "skip", "blamed", "offending_rank", "note"});
  ASSERT_EQ(c.value("op", "sum"), "sum");
  const auto lists = inputs(c);
  run(world_of(c, static_cast<int>(lists.size())), [&](CaseRank& r) {
    const auto rank = static_cast<std::size_t>(r.rank());
    Buffer gradient(r, c, lists[rank]);
    const std::uint32_t id = gradient.declare(rank == 0);
    EXPECT_EQ(r.activate(), STEPGATE_OK) << gate::last_error();
    begin(r);
    r.all_reduce(gradient.type, gradient.data, gradient.count);
    const Step s = r.end();
    EXPECT_EQ(s.status, STEPGATE_OK) << s.error;
    expect_stats(c["want"], r, id, s);
  });
}

}  // namespace

void run_agreement_cases(const RunCase& run) {
  const std::map<std::string, void (*)(const RunCase&, const json&)> kinds = {
      {"agree", run_agree},           {"norm", run_norm},       {"decision", run_decision},
      {"trajectory", run_trajectory}, {"unscale", run_unscale}, {"stats", run_stats}};
  std::set<std::string> met;
  const json vectors = load_vectors("agreement_cases.json");
  for (const json& c : vectors.at("cases")) {
    SCOPED_TRACE(std::string(c.at("name")));
    const auto kind = kinds.find(c.at("kind"));
    ASSERT_NE(kind, kinds.end()) << "no test knows the kind " << c.at("kind");
    kind->second(run, c);
    met.insert(kind->first);
  }
  EXPECT_EQ(met.size(), kinds.size()) << "a kind has lost its last case";
  EXPECT_GE(vectors.at("cases").size(), 26u);
}

}  // namespace stepgate::test

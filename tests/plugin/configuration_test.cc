// Every variable of the configuration: what is taken, what is refused and in which words.
#include "plugin/core/configuration.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "plugin/core/config_table.h"
#include "tests/plugin/variables.h"

namespace stepgate::gate {
namespace {

Configuration read(const Variables& variables) {
  Configuration c;
  std::string error;
  std::vector<std::string> notes;
  EXPECT_TRUE(read_configuration(environment(variables), &c, &error, &notes)) << error;
  EXPECT_EQ(error, "");
  EXPECT_TRUE(notes.empty()) << notes.front();
  return c;
}

std::string refusal(const Variables& variables) {
  Configuration c;
  c.job_name = "untouched";
  std::string error;
  std::vector<std::string> notes;
  EXPECT_FALSE(read_configuration(environment(variables), &c, &error, &notes));
  EXPECT_EQ(c.job_name, "untouched") << "a refused configuration was half taken over";
  return error;
}

const ConfigEntry* entry_of(const std::string& name) {
  for (const ConfigEntry& e : config_table()) {
    if (name == e.name) return &e;
  }
  return nullptr;
}

// What each row of the table takes and refuses. `beside`: what must be set with it.
struct Row {
  const char* name;
  std::vector<const char*> good, bad;
  Variables beside = {};
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"STEPGATE_MODE", {"off", "observe", "enforce"}, {"on", "Enforce", "1", " off"}},
      {"STEPGATE_RULE",
       {"stepgate", "torch", "apex", "megatron", "deepspeed", "deepspeed-consecutive", "static", "none"},
       {"Torch", "pytorch", "0"}},
      {"STEPGATE_INITIAL_SCALE", {"1", "65536", "0.5", "1e3"}, {"0", "-1", "nan", "inf", "1e39", "2x", "x"}},
      {"STEPGATE_GROWTH", {"2", "1.5"}, {"1", "0.5", "-2", "nan", "inf", "1e39"}},
      {"STEPGATE_BACKOFF", {"0.5", "0.999"}, {"0", "1", "2", "-0.5", "nan"}},
      {"STEPGATE_INTERVAL", {"1", "2000"}, {"0", "-1", "1.5", "99999999999", "two"}},
      {"STEPGATE_HYSTERESIS", {"1", "3"}, {"0", "-2", "1.5"}, {{"STEPGATE_RULE", "apex"}}},
      {"STEPGATE_MINIMUM_SCALE", {"1", "0.25"}, {"0", "-1", "nan"}},
      {"STEPGATE_MAXIMUM_SCALE", {"65536", "1e9"}, {"0", "-1", "inf"}},
      {"STEPGATE_MAX_NORM", {"0", "1", "0.1"}, {"-1", "nan", "inf", "1,0"}},
      {"STEPGATE_SKIP_NORM", {"0", "100"}, {"-0.1", "nan", "inf"}},
      {"STEPGATE_UNSCALE", {"deferred", "apply", "in_hook"}, {"in-hook", "APPLY"}},
      {"STEPGATE_DIVERGENCE", {"report", "veto", "error"}, {"abort"}},
      {"STEPGATE_RELEASED", {"skip", "unguarded"}, {"apply"}},
      {"STEPGATE_ATTRIBUTION", {"auto", "on", "off"}, {"true"}},
      {"STEPGATE_DEVICE", {"auto", "host", "cuda"}, {"gpu", "cuda:0"}},
      {"STEPGATE_ACTIVATION_TIMEOUT", {"0.5", "600"}, {"0", "-1", "never"}},
      {"STEPGATE_METRICS", {"on", "off"}, {"yes"}},
      {"STEPGATE_METRICS_ADDR", {"0.0.0.0", "localhost"}, {"garbage", "::1", "1.2.3", "300.1.1.1"}},
      {"STEPGATE_METRICS_PORT", {"0", "65535"}, {"-1", "65536", "http"}},
      {"STEPGATE_METRICS_AUTH_FILE", {"/run/secrets/page", "not/there"}, {"two\nlines", "\xff"}},
      {"STEPGATE_METRICS_TLS_CERTIFICATE", {"/etc/tls/tls.crt"}, {"\x01"}},
      {"STEPGATE_METRICS_TLS_KEY", {"/etc/tls/tls.key"}, {"\x01"}},
      {"STEPGATE_METRICS_TEXTFILE_DIR", {"/tmp", "/nonexistent/folder"}, {"two\nlines"}},
      {"STEPGATE_METRICS_FILE_SD_DIR", {"/tmp", "/nonexistent/folder"}, {"\xff"}},
      {"STEPGATE_METRICS_BUCKETS", {"1", "4096"}, {"0", "4097"}},
      {"STEPGATE_JOB_NAME", {"any thing", "\"quoted\" \\ \u00fc"}, {"two\nlines", "\xff"}},
      {"STEPGATE_RUN_ID", {"42"}, {"\x01", "cut \xc3"}},
      {"STEPGATE_ANOMALY_SKIPS_IN_ROW", {"1", "10"}, {"0", "-1", "x"}},
      {"STEPGATE_ANOMALY_FLOOR_WINDOW", {"1", "100"}, {"0", "1.5"}},
      {"STEPGATE_OBSERVE_MIN_COUNT", {"1", "4096"}, {"0", "-1", "x"}},
      {"STEPGATE_OBSERVE_COMM", {"data", "dp_*"}, {"two\nlines", "\xff"}},
      {"STEPGATE_OBSERVE_RANKS", {"0", "8"}, {"-1", "1.5", "all"}},
      {"STEPGATE_ANOMALY_UNDERFLOW_JUMP", {"0.5", "1"}, {"0", "-1", "1.5", "nan"}},
      {"STEPGATE_ANOMALY_STAGNATION_SHARE", {"0.5", "1"}, {"0", "-1", "1.5", "nan"}},
      {"STEPGATE_ANOMALY_SPIKE_FACTOR", {"1.5", "5", "1e9"}, {"1", "0", "-1", "nan", "inf"}},
      {"STEPGATE_ANOMALY_SPIKE_WINDOW", {"1", "100", "1024"}, {"0", "1025", "1.5"}},
      {"STEPGATE_ANOMALY_THRASH_GROWTHS", {"1", "5"}, {"0", "-1", "x"}},
      {"STEPGATE_CONFIG", {"integration/examples/stepgate.conf"}, {"/nonexistent/file", "/tmp"}},
      {"STEPGATE_ANOMALY_SILENT_SECONDS", {"0.5", "60"}, {"0", "-1", "nan"}},
      {"STEPGATE_PLANE", {"on", "off"}, {"yes", "1"}},
      {"STEPGATE_RENDEZVOUS",
       {"10.0.0.1:29501", "node-1.local:1", "localhost:65535"},
       {"29501", ":29501", "host:", "host:0", "host:65536", "host:x", "::1:29501"}},
      {"STEPGATE_PLANE_TIMEOUT", {"0.2", "10", "3600"}, {"0.1", "0", "-1", "3601", "x"}},
      {"MASTER_ADDR", {"127.0.0.1", "node-1"}, {}},
      {"MASTER_PORT", {"1", "65534", "0", "65535", "x"}, {}},
      {"STEPGATE_LOG", {"off", "error", "warn", "info"}, {"debug"}},
      {"RANK", {"0", "7"}, {"-1", "a", "8"}, {{"WORLD_SIZE", "8"}}},
      {"WORLD_SIZE", {"1", "4096"}, {"0", "-4", "4x"}},
      {"LOCAL_RANK", {"0", "3"}, {"-1", "x"}},
      {"LOCAL_WORLD_SIZE", {"1", "8"}, {"0", "x"}},
      {"OMPI_COMM_WORLD_RANK", {"0", "7"}, {"-1", "a"}, {{"OMPI_COMM_WORLD_SIZE", "8"}}},
      {"OMPI_COMM_WORLD_SIZE", {"1", "4096"}, {"0", "x"}, {{"OMPI_COMM_WORLD_RANK", "0"}}},
      {"OMPI_COMM_WORLD_LOCAL_RANK", {"0", "3"}, {"-1", "x"}, {{"OMPI_COMM_WORLD_RANK", "0"}}},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", {"1", "3"}, {"0", "x"}, {{"OMPI_COMM_WORLD_RANK", "0"}}},
      {"PMIX_RANK", {"0"}, {"-1", "x"}},
      {"SLURM_PROCID", {"0", "7"}, {"-1", "x"}, {{"SLURM_NTASKS", "8"}}},
      {"SLURM_NTASKS", {"1", "8"}, {"0", "x"}, {{"SLURM_PROCID", "0"}}},
      {"SLURM_LOCALID", {"0", "3"}, {"-1", "x"}, {{"SLURM_PROCID", "0"}}},
      {"SLURM_STEP_TASKS_PER_NODE", {"4", "4(x2),3", "2,1"}, {"0", "x", "4x2"}, {{"SLURM_PROCID", "0"}}},
      {"TORCHELASTIC_RUN_ID", {"none", "job-7"}, {"two\nlines"}},
      {"SLURM_JOB_ID", {"1234"}, {"two\nlines"}},
      {"SLURM_STEP_ID", {"0"}, {"two\nlines"}, {{"SLURM_JOB_ID", "1"}}},
      {"PMIX_NAMESPACE", {"prterun-host-1@1"}, {"two\nlines"}},
      {"TORCHELASTIC_RESTART_COUNT", {"0", "3"}, {"-1", "x"}},
      {"SLURM_RESTART_COUNT", {"0", "3"}, {"-1", "x"}},
  };
  return all;
}

Variables with(const Row& row, const char* value) {
  Variables v = row.beside;
  v[row.name] = value;
  return v;
}

TEST(Configuration, EveryRowOfTheTableIsTested) {
  std::set<std::string> tested, known;
  for (const Row& r : rows()) tested.insert(r.name);
  for (const ConfigEntry& e : config_table()) known.insert(e.name);
  EXPECT_EQ(tested, known);
}

TEST(Configuration, GoodValuesAreTaken) {
  for (const Row& row : rows()) {
    for (const char* value : row.good) {
      SCOPED_TRACE(std::string(row.name) + "=" + value);
      read(with(row, value));
    }
  }
}

TEST(Configuration, BadValuesAreRefusedWithNameValueAndWhatIsAllowed) {
  for (const Row& row : rows()) {
    for (const char* value : row.bad) {
      const std::string error = refusal(with(row, value));
      EXPECT_NE(error.find(std::string(row.name) + "='" + value + "'"), std::string::npos) << error;
      if (std::string(row.name) == "RANK") continue;  // 8 of 8: told with the world's size
      EXPECT_NE(error.find(entry_of(row.name)->allowed), std::string::npos) << error;
    }
  }
}

TEST(Configuration, EmptyIsUnset) {
  Variables all;
  for (const ConfigEntry& e : config_table()) all[e.name] = "";
  const Configuration c = read(all);
  EXPECT_EQ(c.mode, Mode::kObserve);
  EXPECT_EQ(c.metrics_port, 19470u);
  EXPECT_FALSE(c.scaler.rule.has_value());
  EXPECT_EQ(c.metrics_address, "127.0.0.1");
  EXPECT_EQ(c.world, 1u);
}

// MASTER_PORT is the job's own store's: the plane never listens there.
TEST(Configuration, TheRendezvousIsOneAboveTheJobsOwnPort) {
  const Variables on = {{"STEPGATE_PLANE", "on"}, {"MASTER_ADDR", "10.1.2.3"}, {"MASTER_PORT", "29500"}};
  const Configuration c = read(on);
  EXPECT_EQ(c.rendezvous_host, "10.1.2.3");
  EXPECT_EQ(c.rendezvous_port, 29501);
  Variables told = on;
  told["STEPGATE_RENDEZVOUS"] = "node:7";
  EXPECT_EQ(read(told).rendezvous_host, "node");
  EXPECT_EQ(read(told).rendezvous_port, 7);
  EXPECT_FALSE(read({}).plane) << "only when asked";
  EXPECT_EQ(read({}).rendezvous_port, 0);
}

// Not our variables, and seen with anything in them: a Kubernetes service called "master" sets the first.
const std::vector<std::pair<const char*, const char*>> kUnusableStores = {
    {"MASTER_PORT", "tcp://10.0.0.1:29500"},
    {"MASTER_PORT", "65535"},
    {"MASTER_PORT", "0"},
    {"MASTER_PORT", "x"},
    {"MASTER_ADDR", "::1"},
    {"MASTER_ADDR", "two\nlines"}};

TEST(Configuration, AJobsStoreThatCannotBeUsedIsAWarningOfThePlaneOnly) {
  for (const auto& [name, value] : kUnusableStores) {
    SCOPED_TRACE(std::string(name) + "=" + value);
    Variables v = {{"STEPGATE_MODE", "enforce"}, {"MASTER_ADDR", "10.1.2.3"}, {"MASTER_PORT", "29500"}};
    v[name] = value;
    EXPECT_EQ(read(v).mode, Mode::kEnforce) << "no plane: not looked at, and no note";
    Variables told = v;
    told["STEPGATE_PLANE"] = "on";
    told["STEPGATE_RENDEZVOUS"] = "node:7";
    EXPECT_EQ(read(told).rendezvous_port, 7) << "nor where another place is given";
    v["STEPGATE_PLANE"] = "on";
    Configuration c;
    std::string error;
    std::vector<std::string> notes;
    ASSERT_TRUE(read_configuration(environment(v), &c, &error, &notes)) << error;
    EXPECT_EQ(c.mode, Mode::kEnforce);
    EXPECT_EQ(c.rendezvous_host, "");
    EXPECT_EQ(c.rendezvous_port, 0);
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].find(std::string(name) + "='" + value + "'"), std::string::npos) << notes[0];
    EXPECT_NE(notes[0].find("where rank 0 of the plane is"), std::string::npos) << notes[0];
  }
}

// A parameter that a rule does not have would be ignored silently: it is refused instead.
TEST(Configuration, ParametersThatTheRuleDoesNotHaveAreRefused) {
  const std::map<std::string, const char*> parameters = {
      {"STEPGATE_HYSTERESIS", "2"}, {"STEPGATE_MINIMUM_SCALE", "1"}, {"STEPGATE_MAXIMUM_SCALE", "1000000"},
      {"STEPGATE_GROWTH", "2"},     {"STEPGATE_BACKOFF", "0.5"},     {"STEPGATE_INTERVAL", "100"}};
  const auto has = [](ScalerRule r, const std::string& name) {
    if (name == "STEPGATE_HYSTERESIS") return rule_has_hysteresis(r);
    if (name == "STEPGATE_MINIMUM_SCALE") return rule_has_minimum(r);
    if (name == "STEPGATE_MAXIMUM_SCALE") return rule_has_maximum(r);
    if (name == "STEPGATE_BACKOFF") return rule_has_backoff(r);
    return rule_has_growth(r);
  };
  for (std::uint32_t i = 0; i < kScalerRuleCount; ++i) {
    const auto rule = static_cast<ScalerRule>(i);
    for (const auto& [name, value] : parameters) {
      const Variables v = {{"STEPGATE_RULE", scaler_rule_name(rule)}, {name, value}};
      SCOPED_TRACE(std::string(scaler_rule_name(rule)) + " and " + name);
      if (has(rule, name)) {
        read(v);
        continue;
      }
      const std::string error = refusal(v);
      EXPECT_NE(error.find(std::string("'") + scaler_rule_name(rule) + "'"), std::string::npos) << error;
      EXPECT_NE(error.find(std::string("=") + value + " (" + name + ")"), std::string::npos) << error;
    }
  }
}

TEST(Configuration, RelationsAreChecked) {
  EXPECT_NE(refusal({{"STEPGATE_MINIMUM_SCALE", "100"}, {"STEPGATE_MAXIMUM_SCALE", "10"}}).find("minimum"),
            std::string::npos);
  EXPECT_NE(refusal({{"RANK", "4"}, {"WORLD_SIZE", "4"}}).find("= 3"), std::string::npos);
  EXPECT_NE(refusal({{"STEPGATE_RULE", "none"}, {"STEPGATE_INITIAL_SCALE", "2"}}).find("none"),
            std::string::npos);
}

// The text of configuration.cc: every name that it reads is a row of the table, and every row is read.
TEST(Configuration, TableAndReaderNameTheSameVariables) {
  std::ifstream file("plugin/core/configuration.cc");
  ASSERT_TRUE(file.good()) << "run from the repository's root";
  std::stringstream text;
  text << file.rdbuf();
  const std::string source = text.str();
  std::set<std::string> read_names = {"STEPGATE_CONFIG"}, table_names;
  EXPECT_NE(source.find("kFileVariable[] = \"STEPGATE_CONFIG\""), std::string::npos);
  for (const std::string call :
       {"r.label(\"", "r.address(\"", "r.path(\"", "r.number(\"", "r.integer(\"", "r.choice(\"", "r.rule(\"",
        "r.meeting_place(\"", "r.store_host(\"", "r.store_port(\""}) {
    for (std::size_t at = source.find(call); at != std::string::npos; at = source.find(call, at + 1)) {
      const std::size_t name = at + call.size();
      const std::string read_name = source.substr(name, source.find('"', name) - name);
      EXPECT_TRUE(read_names.insert(read_name).second) << read_name << " is read twice";
    }
  }
  for (const char* name : identity_names()) {
    EXPECT_TRUE(read_names.insert(name).second) << name << " is read twice";
  }
  for (const ConfigEntry& e : config_table()) table_names.insert(e.name);
  EXPECT_EQ(read_names, table_names);
}

TEST(Configuration, DigestTellsEveryFieldApart) {
  const ScalerParams p = default_params(ScalerRule::kMegatron);
  const StepPolicy policy;
  const std::uint32_t base = configuration_digest(p, policy);
  EXPECT_EQ(base, configuration_digest(p, policy));
  std::set<std::uint32_t> digests = {base};
  const auto add = [&](auto change) {
    ScalerParams q = p;
    StepPolicy r = policy;
    change(q, r);
    EXPECT_TRUE(digests.insert(configuration_digest(q, r)).second);
  };
  add([](ScalerParams& q, StepPolicy&) { q.rule = ScalerRule::kTorch; });
  add([](ScalerParams& q, StepPolicy&) { q.hysteresis = 7; });
  add([](ScalerParams& q, StepPolicy&) { q.initial_scale = 3; });
  add([](ScalerParams& q, StepPolicy&) { q.growth = 3; });
  add([](ScalerParams& q, StepPolicy&) { q.backoff = 0.75; });
  add([](ScalerParams& q, StepPolicy&) { q.interval = 3; });
  add([](ScalerParams& q, StepPolicy&) { q.minimum = 3; });
  add([](ScalerParams& q, StepPolicy&) { q.maximum = 3; });
  add([](ScalerParams&, StepPolicy& r) { r.max_norm = 1; });
  add([](ScalerParams&, StepPolicy& r) { r.skip_norm = 1; });
  add([](ScalerParams&, StepPolicy& r) { r.unscale = UnscaleMode::kApply; });
  add([](ScalerParams&, StepPolicy& r) { r.divergence = DivergencePolicy::kReport; });
  add([](ScalerParams&, StepPolicy& r) { r.world = 2; });
  add([](ScalerParams&, StepPolicy& r) { r.release_after = 4; });
  add([](ScalerParams&, StepPolicy& r) { r.released = ReleasedPolicy::kUnguarded; });
}

}  // namespace
}  // namespace stepgate::gate

// Every setting's way: from its variable into the configuration, and on to the page and the plane. Each value
// differs from its default and from its neighbours' values.
#include <gtest/gtest.h>

#include <set>

#include "plugin/core/config_table.h"
#include "plugin/core/configuration.h"
#include "plugin/core/start_options.h"
#include "tests/plugin/variables.h"

namespace stepgate::gate {
namespace {

const Variables kEverySetting = {{"STEPGATE_MODE", "enforce"},
                                 {"STEPGATE_RULE", "megatron"},
                                 {"STEPGATE_INITIAL_SCALE", "128"},
                                 {"STEPGATE_GROWTH", "3"},
                                 {"STEPGATE_BACKOFF", "0.25"},
                                 {"STEPGATE_INTERVAL", "10"},
                                 {"STEPGATE_HYSTERESIS", "4"},
                                 {"STEPGATE_MINIMUM_SCALE", "2"},
                                 {"STEPGATE_MAX_NORM", "1.5"},
                                 {"STEPGATE_SKIP_NORM", "9"},
                                 {"STEPGATE_UNSCALE", "apply"},
                                 {"STEPGATE_DIVERGENCE", "error"},
                                 {"STEPGATE_RELEASED", "unguarded"},
                                 {"STEPGATE_ATTRIBUTION", "off"},
                                 {"STEPGATE_DEVICE", "host"},
                                 {"STEPGATE_ACTIVATION_TIMEOUT", "77"},
                                 {"STEPGATE_OBSERVE_MIN_COUNT", "33"},
                                 {"STEPGATE_OBSERVE_RANKS", "6"},
                                 {"STEPGATE_OBSERVE_COMM", "data*"},
                                 {"STEPGATE_METRICS", "off"},
                                 {"STEPGATE_METRICS_ADDR", "127.0.0.9"},
                                 {"STEPGATE_METRICS_PORT", "7"},
                                 {"STEPGATE_METRICS_AUTH_FILE", "/a"},
                                 {"STEPGATE_METRICS_TLS_CERTIFICATE", "/c"},
                                 {"STEPGATE_METRICS_TLS_KEY", "/k"},
                                 {"STEPGATE_METRICS_TEXTFILE_DIR", "/t"},
                                 {"STEPGATE_METRICS_FILE_SD_DIR", "/s"},
                                 {"STEPGATE_METRICS_BUCKETS", "12"},
                                 {"STEPGATE_JOB_NAME", "a job"},
                                 {"STEPGATE_RUN_ID", "a run"},
                                 {"STEPGATE_ANOMALY_SKIPS_IN_ROW", "4"},
                                 {"STEPGATE_ANOMALY_FLOOR_WINDOW", "20"},
                                 {"STEPGATE_ANOMALY_UNDERFLOW_JUMP", "0.75"},
                                 {"STEPGATE_ANOMALY_STAGNATION_SHARE", "0.125"},
                                 {"STEPGATE_ANOMALY_SPIKE_FACTOR", "3.5"},
                                 {"STEPGATE_ANOMALY_SPIKE_WINDOW", "50"},
                                 {"STEPGATE_ANOMALY_THRASH_GROWTHS", "2"},
                                 {"STEPGATE_ANOMALY_SILENT_SECONDS", "44"},
                                 {"STEPGATE_PLANE", "on"},
                                 {"STEPGATE_RENDEZVOUS", "node-1:8"},
                                 {"STEPGATE_PLANE_TIMEOUT", "5.5"},
                                 {"STEPGATE_LOG", "info"},
                                 {"RANK", "3"},
                                 {"WORLD_SIZE", "5"},
                                 {"LOCAL_RANK", "1"},
                                 {"LOCAL_WORLD_SIZE", "2"}};

Configuration every_setting() {
  Configuration c;
  std::string error;
  std::vector<std::string> notes;
  EXPECT_TRUE(read_configuration(environment(kEverySetting), &c, &error, &notes)) << error;
  EXPECT_TRUE(notes.empty()) << notes.front();
  return c;
}

// A new row has to be added above, and with it the line that looks for its value.
TEST(ConfigurationValues, EveryRowOfTheTableHasAValueHere) {
  // megatron has no maximum: TheMaximumArrives. The file is read before all else: config_file_test.cc.
  const std::set<std::string> elsewhere = {"STEPGATE_MAXIMUM_SCALE", "STEPGATE_CONFIG"};
  for (const ConfigEntry& e : config_table()) {
    const std::string name = e.name;
    if (!name.starts_with("STEPGATE_")) continue;  // launchers' variables: identity_test.cc
    EXPECT_NE(kEverySetting.contains(name), elsewhere.contains(name)) << name;
    if (kEverySetting.contains(name)) {
      EXPECT_NE(kEverySetting.at(name), e.fallback) << name;
    }
  }
}

TEST(ConfigurationValues, TheStepsArriveWhereTheyBelong) {
  const Configuration c = every_setting();
  EXPECT_EQ(c.mode, Mode::kEnforce);
  EXPECT_EQ(c.max_norm, 1.5);
  EXPECT_EQ(c.skip_norm, 9);
  EXPECT_EQ(c.unscale, UnscaleMode::kApply);
  EXPECT_EQ(c.divergence, DivergencePolicy::kError);
  EXPECT_EQ(c.released, ReleasedPolicy::kUnguarded);
  EXPECT_EQ(c.attribution, Attribution::kOff);
  EXPECT_EQ(c.device, DeviceChoice::kHost);
  EXPECT_EQ(c.activation_timeout_seconds, 77);
  EXPECT_EQ(c.observe_min_count, 33u);
  EXPECT_EQ(c.observe_ranks, 6u);
  EXPECT_EQ(c.observe_comm, "data*");
  EXPECT_EQ(c.job_name, "a job");
  EXPECT_EQ(c.run_id, "a run");
  EXPECT_EQ(c.log, LogLevel::kInfo);
  EXPECT_EQ(c.rank, 3u);
  EXPECT_EQ(c.world, 5u);
  EXPECT_EQ(c.local_rank, 1u);
  EXPECT_EQ(c.local_world, 2u);
}

TEST(ConfigurationValues, ThePagesArriveWhereTheyBelong) {
  const Configuration c = every_setting();
  EXPECT_FALSE(c.metrics);
  EXPECT_EQ(c.metrics_address, "127.0.0.9");
  EXPECT_EQ(c.metrics_port, 7u);
  EXPECT_EQ(c.metrics_auth_file, "/a");
  EXPECT_EQ(c.metrics_tls_certificate, "/c");
  EXPECT_EQ(c.metrics_tls_key, "/k");
  EXPECT_EQ(c.metrics_textfile_dir, "/t");
  EXPECT_EQ(c.metrics_file_sd_dir, "/s");
  EXPECT_EQ(c.metrics_buckets, 12u);
  EXPECT_EQ(c.anomaly_skips_in_row, 4u);
  EXPECT_EQ(c.anomaly_floor_window, 20u);
  EXPECT_EQ(c.anomaly_underflow_jump, 0.75);
  EXPECT_EQ(c.anomaly_stagnation_share, 0.125);
  EXPECT_EQ(c.anomaly_spike_factor, 3.5);
  EXPECT_EQ(c.anomaly_spike_window, 50u);
  EXPECT_EQ(c.anomaly_thrash_growths, 2u);
  EXPECT_EQ(c.anomaly_silent_seconds, 44);
  EXPECT_TRUE(c.plane);
  EXPECT_EQ(c.rendezvous_host, "node-1");
  EXPECT_EQ(c.rendezvous_port, 8u);
  EXPECT_EQ(c.plane_timeout, 5.5);
}

TEST(ConfigurationValues, TheScalersArriveWhereTheyBelong) {
  const Configuration c = every_setting();
  ScalerParams p;
  std::string error;
  ASSERT_TRUE(resolve_scaler(c.scaler, &p, &error)) << error;
  EXPECT_EQ(p.rule, ScalerRule::kMegatron);
  EXPECT_EQ(p.initial_scale, 128);
  EXPECT_EQ(p.growth, 3);
  EXPECT_EQ(p.backoff, 0.25);
  EXPECT_EQ(p.interval, 10u);
  EXPECT_EQ(p.hysteresis, 4u);
  EXPECT_EQ(p.minimum, 2);
}

TEST(ConfigurationValues, TheMaximumArrives) {
  const Variables variables = {{"STEPGATE_RULE", "stepgate"}, {"STEPGATE_MAXIMUM_SCALE", "262144"}};
  Configuration c;
  std::string error;
  std::vector<std::string> notes;
  ASSERT_TRUE(read_configuration(environment(variables), &c, &error, &notes)) << error;
  ScalerParams p;
  ASSERT_TRUE(resolve_scaler(c.scaler, &p, &error)) << error;
  EXPECT_EQ(p.maximum, 262144);
}

TEST(ConfigurationValues, ThePageGetsThem) {
  const metrics::PublisherOptions o = publisher_options(every_setting(), "/lib");
  EXPECT_TRUE(o.exposition.http);
  EXPECT_EQ(o.exposition.address, "127.0.0.9");
  EXPECT_EQ(o.exposition.first_port, 7u);
  EXPECT_EQ(o.exposition.local_rank, 1);
  EXPECT_EQ(o.exposition.local_world, 2);
  EXPECT_EQ(o.exposition.auth_file, "/a");
  EXPECT_EQ(o.exposition.tls_certificate, "/c");
  EXPECT_EQ(o.exposition.tls_key, "/k");
  EXPECT_EQ(o.exposition.tls_folder, "/lib/stepgate_tls");
  EXPECT_EQ(o.exposition.textfile_dir, "/t");
  EXPECT_EQ(o.exposition.file_sd_dir, "/s");
  EXPECT_EQ(o.bucket_cap, 12u);
  EXPECT_EQ(o.thresholds.skips_in_row, 4u);
  EXPECT_EQ(o.thresholds.floor_window, 20u);
  EXPECT_EQ(o.thresholds.underflow_jump, 0.75);
  EXPECT_EQ(o.thresholds.spike_factor, 3.5);
  EXPECT_EQ(o.thresholds.spike_window, 50u);
  EXPECT_EQ(o.thresholds.thrash_growths, 2u);
  EXPECT_EQ(o.thresholds.stagnation_share, 0.125);
}

TEST(ConfigurationValues, ThePlaneGetsThem) {
  const plane::PlaneOptions o = plane_options(every_setting());
  EXPECT_EQ(o.seat.rank, 3);
  EXPECT_EQ(o.seat.world, 5);
  EXPECT_EQ(o.seat.key, run_key(every_setting()));
  EXPECT_NE(o.seat.key.find("a run"), std::string::npos) << o.seat.key;
  EXPECT_EQ(o.seat.host, "node-1");
  EXPECT_EQ(o.seat.port, 8u);
  EXPECT_EQ(o.seat.timeout, 5.5);
  EXPECT_EQ(o.limits.timeout, 5.5);
  EXPECT_EQ(o.limits.silent_after, 44);
}

}  // namespace
}  // namespace stepgate::gate

#include "plugin/core/start_options.h"

#include <cstdint>

#include "plugin/core/plane/transport_file.h"

namespace stepgate::gate {

metrics::PublisherOptions publisher_options(const Configuration& c, const std::string& folder) {
  metrics::PublisherOptions o;
  o.exposition.address = c.metrics_address;
  o.exposition.first_port = static_cast<std::uint16_t>(c.metrics_port);
  o.exposition.local_rank = static_cast<int>(c.local_rank);
  o.exposition.local_world = static_cast<int>(c.local_world);
  o.exposition.auth_file = c.metrics_auth_file;
  o.exposition.tls_certificate = c.metrics_tls_certificate;
  o.exposition.tls_key = c.metrics_tls_key;
  o.exposition.tls_folder = folder + "/" + metrics::kTlsFolderName;
  o.exposition.textfile_dir = c.metrics_textfile_dir;
  o.exposition.file_sd_dir = c.metrics_file_sd_dir;
  o.bucket_cap = c.metrics_buckets;
  o.thresholds.skips_in_row = static_cast<std::uint32_t>(c.anomaly_skips_in_row);
  o.thresholds.floor_window = static_cast<std::uint32_t>(c.anomaly_floor_window);
  o.thresholds.underflow_jump = c.anomaly_underflow_jump;
  o.thresholds.stagnation_share = c.anomaly_stagnation_share;
  o.thresholds.spike_factor = c.anomaly_spike_factor;
  o.thresholds.spike_window = static_cast<std::uint32_t>(c.anomaly_spike_window);
  o.thresholds.thrash_growths = static_cast<std::uint32_t>(c.anomaly_thrash_growths);
  return o;
}

plane::PlaneOptions plane_options(const Configuration& c) {
  plane::PlaneOptions o;
  o.seat.rank = static_cast<int>(c.rank);
  o.seat.world = static_cast<int>(c.world);
  o.seat.key = run_key(c);
  o.seat.host = c.rendezvous_host;
  o.seat.port = c.rendezvous_port;
  o.seat.timeout = o.limits.timeout = c.plane_timeout;
  o.limits.silent_after = c.anomaly_silent_seconds;
  o.transport = plane::open_transport;
  return o;
}

}  // namespace stepgate::gate

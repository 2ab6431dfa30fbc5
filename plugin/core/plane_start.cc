// Process: when the plane is opened, with which seat, and how it ends.
#include <cstring>
#include <utility>

#include "plugin/core/last_error.h"
#include "plugin/core/plane/address.h"
#include "plugin/core/process.h"
#include "plugin/core/standard_streams.h"
#include "plugin/core/start_options.h"

namespace stepgate::gate {
namespace {

// "" it may start, else why not.
std::string obstacle(const Configuration& c, const std::string& unsafe) {
  if (c.world < 2) return "this job has one rank";
  if (c.rendezvous_host.empty() || c.rendezvous_port == 0) {
    return "nobody says where rank 0 is; set STEPGATE_RENDEZVOUS=host:port, or MASTER_ADDR and MASTER_PORT";
  }
  if (c.run_id.empty() && !plane::on_loopback(c.rendezvous_host)) {
    return "the rendezvous " + c.rendezvous_host + ":" + std::to_string(c.rendezvous_port) +
           " is open to a network and this run has no id, so ranks of other runs could not be told from its "
           "own; set "
           "STEPGATE_RUN_ID to the same text on all ranks (or torchrun's --rdzv-id), or meet at 127.0.0.1";
  }
  return unsafe;
}

}  // namespace

// With the first gate, like the page. A plane that cannot be is a line in the log, never an error.
void Process::start_plane_locked() {
  if (!configuration_.plane || plane_ != nullptr || plane_refused_ || shut_) return;
  const std::string why = obstacle(configuration_, no_plane_);
  if (!why.empty()) {
    plane_refused_ = true;
    return log().warn("the plane stays off: " + why);
  }
  hold_standard_streams();
  plane_ = std::make_unique<plane::Plane>(plane_options(configuration_), log());
  plane_->start();
  if (publisher_ != nullptr && plane_->leads()) publisher_->add_job_source(&plane_->board());
}

// A plane whose thread is in the middle of a wait is left to it: the process ends anyway.
void Process::stop_plane_locked() noexcept {
  if (plane_ == nullptr) return;
  const bool ended = plane_->stop(plane::kStopSeconds);
  if (publisher_ != nullptr) publisher_->remove_job_source();
  if (ended) {
    plane_.reset();
  } else {
    static_cast<void>(plane_.release());
  }
}

stepgate_status Process::job_offenders(const Gate& gate, std::uint64_t step, stepgate_offender* list,
                                       std::size_t* count) const {
  std::vector<plane::Offender> found;
  const std::size_t room = std::exchange(*count, 0);
  {
    const std::shared_lock lock(gates_mutex_);
    if (plane_ == nullptr || !plane_->leads()) {
      return fail(STEPGATE_UNSUPPORTED,
                  "stepgate_job_offenders: only rank 0 of a job with STEPGATE_PLANE=on has this list");
    }
    found = plane_->board().offenders(gate.name(), step);
  }
  for (const plane::Offender& o : found) {
    if (*count == room) break;
    stepgate_offender& out = list[(*count)++];
    out.step = o.step;
    out.rank = o.rank;
    out.has_nan = static_cast<int>(o.has_nan);
    out.inf = o.inf;
    out.nan = o.nan;
    static_assert(sizeof out.range == sizeof o.range && sizeof out.parameter == sizeof o.parameter,
                  "the wire carries the API's texts");
    std::memcpy(out.range, o.range, sizeof out.range);
    std::memcpy(out.parameter, o.parameter, sizeof out.parameter);
  }
  return STEPGATE_OK;
}

}  // namespace stepgate::gate

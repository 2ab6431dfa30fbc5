// Plane: what ranks tell rank 0 beside the job: who is alive, how far each has come, its scale, skips
// and offenders. Never on the path of a decision: a rank that it cannot reach is a figure on rank 0's
// page, and the job runs on whatever becomes of the plane.
//
//   Plane plane(options, log);          // nothing happens yet
//   plane.sampler().add(&gate);
//   plane.start();                      // one thread; everything that may wait is done there
//   publisher.add_job_source(&plane.board());   // rank 0
//   if (!plane.stop(kStopSeconds)) ...  // the thread is in a wait that nothing ends: leak the object
//
// Threads: start and stop from one thread at a time; board() and sampler() as they say. The job's
// threads never wait for the plane's: stop() waits for at most its argument.
// fork: in a child every function does nothing, and the object must not be destroyed.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "plugin/core/identity.h"
#include "plugin/core/log.h"
#include "plugin/core/plane/hub.h"

namespace stepgate::plane {

// At exit, at most. The thread ends in hundredths of a second; a world that is closed over a connection
// which does not answer takes one second or two. A thread that is left behind would run into the exit's
// destructors, so only what nothing bounds (a name server, a file system) may outlast this.
inline constexpr double kStopSeconds = 5;

struct PlaneOptions {
  Seat seat;
  Limits limits;
  // Opens the transport, in the plane's thread; nullptr with *error.
  std::function<const sgt_table*(std::string* error)> transport;
};

class Plane {
 public:
  Plane(PlaneOptions options, const gate::Log& log);
  ~Plane();  // only after stop() gave true, or without start()
  Plane(const Plane&) = delete;
  Plane& operator=(const Plane&) = delete;

  void start();
  bool stop(double seconds) noexcept;

  bool leads() const { return options_.seat.rank == 0; }
  Sampler& sampler() { return sampler_; }
  Board& board() { return board_; }

 private:
  std::unique_ptr<Side> take_seat();
  void loop() noexcept;
  void run();
  void rest(double seconds);

  const PlaneOptions options_;
  const gate::Log log_;
  const pid_t owner_;
  Sampler sampler_;
  Board board_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // guards done_, for the two waits
  std::condition_variable woken_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace stepgate::plane

// Hub: rank 0's side of the plane: lets callers in, keeps a link to each, puts what they say on the
// board. Spoke: another rank's side: calls, reports twice a second, calls again when its link breaks.
//
// Thread: the plane's one; tick() makes one bounded look at everything. Only meeting a new link waits:
// for rank 0 at most its link deadline (a caller that was stopped between two lines).
// Ownership: the plane; table, sampler and board outlive both.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugin/core/plane/board.h"
#include "plugin/core/plane/link.h"
#include "plugin/core/plane/rendezvous.h"
#include "plugin/core/plane/sampler.h"

namespace stepgate::plane {

inline constexpr double kReportSeconds = 0.5;  // between two turns of a link that has nothing urgent

struct Seat {
  int rank = 0;
  int world = 1;
  std::string key;
  std::string host;
  std::uint16_t port = 0;
  double timeout = 10;  // Limits::timeout
};

using Say = std::function<void(const std::string&)>;

class Side {
 public:
  virtual ~Side() = default;
  // True: something moved, look again soon.
  virtual bool tick(double now) = 0;
  // Says goodbye; true once that is done or cannot be.
  virtual bool leave(double now) = 0;
  // After leave(): what is still open stays open until the process ends.
  virtual void forsake() {}
};

class Hub final : public Side {
 public:
  // Throws std::runtime_error where the port cannot be had.
  Hub(const Seat& seat, const sgt_table& table, Sampler& sampler, Board& board, const std::atomic<bool>& stop,
      Say say);
  bool tick(double now) override;
  bool leave(double now) override;
  void forsake() override;

 private:
  bool let_in(double now);
  void admit(const Hello& hello);
  bool turn(int rank, Link& link, double now);
  void report_own(double now);

  const Seat seat_;
  const sgt_table& table_;
  Sampler& sampler_;
  Board& board_;
  const std::atomic<bool>& stop_;
  const Say say_;
  RendezvousServer server_;
  std::map<int, std::unique_ptr<Link>> links_;
  std::set<std::string> refused_;  // said once each
  Frame answer_;
  double reported_at_ = 0;
};

class Spoke final : public Side {
 public:
  Spoke(const Seat& seat, const sgt_table& table, Sampler& sampler, const std::atomic<bool>& stop, Say say);
  ~Spoke() override;
  Spoke(const Spoke&) = delete;
  Spoke& operator=(const Spoke&) = delete;
  bool tick(double now) override;
  bool leave(double now) override;

 private:
  void call(double now);
  bool meet(RendezvousCall& call, std::string* why);
  Frame report();
  void close_id();
  void failed(const std::string& why, double now);

  const Seat seat_;
  const sgt_table& table_;
  Sampler& sampler_;
  const std::atomic<bool>& stop_;
  const Say say_;
  std::unique_ptr<Link> link_;
  std::optional<sgt_unique_id> id_;  // not met at yet: a call that fails leaves it for the next
  std::string id_address_;
  OffenderBook waiting_;
  std::uint64_t lost_ = 0;
  std::uint64_t turns_ = 0;
  double next_call_ = 0, pause_ = 0, next_report_ = 0;
  double without_since_ = -1;  // rank 0 has not been reached since
  bool said_ = false;
  bool leaving_ = false;
  bool goodbye_ = false;  // the turn under way is the last
};

}  // namespace stepgate::plane

// One rank of a job that loses ranks and gets them back, again and again, for tests/full/soak.sh.
//
//   soak_worker FOLDER RANK SIZE SEED
//
// FOLDER/round holds the number of the round that all ranks are to be in. In each one they make a new
// communicator, take over rank 0's scaler, activate and step, until the number grows or a rank is lost. Every
// step is checked: skipped where SEED says that a rank's gradients hold a NaN and nowhere else, with the same
// decision and scale on all ranks. FOLDER/steady.ROUND.RANK says that enough steps went well. FOLDER/end ends
// it. Exit status 0: whatever was lost was somebody else's; 1: a check failed, the last line says which.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"
#include "stepgate/client.h"

namespace {

constexpr std::size_t kElements = 1 << 16;
constexpr std::size_t kBlob = 1 << 16;
constexpr int kSteadySteps = 20;

struct Seat {
  std::string folder;
  int rank, size;
  std::uint64_t seed;
};

void need(bool condition, const char* what) {
  if (condition) return;
  std::printf("failed: %s: %s, %s\n", what, stepgate_client_last_error(), ncclGetLastError(nullptr));
  std::fflush(stdout);
  std::_Exit(1);
}

long round_asked_for(const std::string& folder) {
  if (std::filesystem::exists(folder + "/end")) return -1;
  long round = 0;
  std::ifstream(folder + "/round") >> round;
  return round;
}

// A later round than this one; -1 at the end.
long next_round(const std::string& folder, long round) {
  for (;;) {
    const long asked = round_asked_for(folder);
    if (asked < 0 || asked > round) return asked;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Rank 0's, by a file that appears whole. False where a later round is asked for first.
bool shared_id(const Seat& seat, long round, ncclUniqueId* id) {
  const std::string path = seat.folder + "/id." + std::to_string(round);
  if (seat.rank == 0) {
    need(ncclGetUniqueId(id) == ncclSuccess, "ncclGetUniqueId");
    std::ofstream(path + ".new", std::ios::binary).write(id->internal, sizeof id->internal);
    std::filesystem::rename(path + ".new", path);
  }
  while (!std::filesystem::exists(path)) {
    if (round_asked_for(seat.folder) != round) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::ifstream(path, std::ios::binary).read(id->internal, sizeof id->internal);
  return true;
}

class Rank {
 public:
  explicit Rank(Seat seat) : seat_(std::move(seat)), data_(kElements) {
    need(stepgate_client_gate_create(nullptr, &gate_) == STEPGATE_OK, "gate_create");
    std::vector<stepgate_segment> segments;
    for (std::size_t i = 0; i < 4; ++i)
      segments.push_back({"part", &data_[i * kElements / 4], kElements / 4});
    stepgate_range range{};
    range.size = sizeof range;
    range.name = "bucket";
    range.segments = segments.data();
    range.segment_count = segments.size();
    range.compute_type = -1;
    range.flags = seat_.rank == 0 ? 0 : STEPGATE_RANGE_NOT_COUNTED;
    std::uint32_t id = 0;
    need(stepgate_client_declare_range(gate_, &range, &id) == STEPGATE_OK, "declare_range");
  }

  void end() { need(stepgate_client_gate_destroy(gate_) == STEPGATE_OK, "gate_destroy"); }

  // Until a later round is asked for, or somebody is lost.
  void run(long round) {
    if (join(round) && steps(round)) {
      need(ncclCommDestroy(comm_) == ncclSuccess, "ncclCommDestroy");
    } else if (comm_ != nullptr) {
      need(ncclCommAbort(comm_) == ncclSuccess, "ncclCommAbort");
    }
    comm_ = nullptr;
  }

 private:
  bool join(long round) {
    ncclUniqueId id{};
    if (!shared_id(seat_, round, &id)) return false;
    if (ncclCommInitRank(&comm_, seat_.size, id, seat_.rank) != ncclSuccess) return false;
    need(stepgate_client_reset_world(gate_, static_cast<std::uint64_t>(round), seat_.size, seat_.rank) ==
             STEPGATE_OK,
         "reset_world");
    if (!take_over_state()) return false;
    need(stepgate_client_add_group(gate_, comm_, 0) == STEPGATE_OK, "add_group");
    if (stepgate_client_enforce_begin(gate_, nullptr) == STEPGATE_OK) return true;
    need(broken(), "enforce_begin");
    return false;
  }

  // Whether the communicator has lost somebody: then, and only then, things may fail.
  bool broken() const {
    ncclResult_t state = ncclSuccess;
    return ncclCommGetAsyncError(comm_, &state) != ncclSuccess || state != ncclSuccess;
  }

  bool take_over_state() {
    std::vector<unsigned char> blob(kBlob);
    std::size_t bytes = blob.size() - sizeof bytes;
    need(stepgate_client_state_save(gate_, blob.data() + sizeof bytes, &bytes) == STEPGATE_OK, "state_save");
    std::memcpy(blob.data(), &bytes, sizeof bytes);
    if (ncclBroadcast(blob.data(), blob.data(), blob.size(), ncclUint8, 0, comm_, nullptr) != ncclSuccess)
      return false;
    std::memcpy(&bytes, blob.data(), sizeof bytes);
    need(stepgate_client_state_load(gate_, blob.data() + sizeof bytes, bytes) == STEPGATE_OK, "state_load");
    return true;
  }

  // True: all ranks leave the round in the same step.
  bool steps(long round) {
    for (int step = 0;; ++step) {
      bool bad = false;
      stepgate_decision decision{};
      if (!one_step(round, step, &bad, &decision)) return false;
      if ((decision.skip != 0) != bad) {
        std::printf("round %ld, step %d: skip %d, reason %d, overflow %d, diverged %d, rank %d\n", round,
                    step, decision.skip, static_cast<int>(decision.reason), decision.overflow,
                    decision.diverged, decision.offender);
        need(false, bad ? "a NaN was not skipped" : "a good step was skipped");
      }
      bool leave = false;
      if (!compare(round, decision, &leave)) return false;
      if (step == kSteadySteps) {
        std::ofstream(seat_.folder + "/steady." + std::to_string(round) + "." + std::to_string(seat_.rank));
      }
      if (leave) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  bool one_step(long round, int step, bool* bad, stepgate_decision* decision) {
    std::mt19937_64 random(seat_.seed + static_cast<std::uint64_t>(round) * 1'000'003 +
                           static_cast<std::uint64_t>(step));
    *bad = random() % 10 == 0;
    const bool mine =
        *bad && random() % static_cast<std::uint64_t>(seat_.size) == static_cast<std::uint64_t>(seat_.rank);
    need(stepgate_client_step_begin(gate_, nullptr) == STEPGATE_OK, "step_begin");
    std::fill(data_.begin(), data_.end(), 1.0f / 1024);
    if (mine) data_[random() % kElements] = NAN;
    const bool reduced = ncclAllReduce(data_.data(), data_.data(), data_.size(), ncclFloat32, ncclSum, comm_,
                                       nullptr) == ncclSuccess;
    const stepgate_status ended = stepgate_client_step_end(gate_, 0, nullptr);
    decision->size = sizeof *decision;
    const stepgate_status waited = stepgate_client_step_wait(gate_, 0, decision);
    if (reduced && ended == STEPGATE_OK && waited == STEPGATE_OK) return true;
    need(broken(), "a step failed though nobody is lost");
    need(decision->skip != 0, "a step that lost a rank was to be applied");
    return false;
  }

  // The same on all ranks, and whether any has been asked to go on to a later round (or the end).
  bool compare(long round, const stepgate_decision& decision, bool* leave) {
    const long asked = round_asked_for(seat_.folder);
    const auto scale = static_cast<std::int64_t>(decision.next_scale * 1024);
    const std::int64_t skip = decision.skip != 0 ? 1 : 0;
    std::int64_t all[] = {asked != round ? 1 : 0, skip, -skip, scale, -scale};
    if (ncclAllReduce(all, all, 5, ncclInt64, ncclMax, comm_, nullptr) != ncclSuccess) return false;
    need(all[1] == -all[2], "ranks decided differently");
    need(all[3] == -all[4], "ranks have different scales");
    *leave = all[0] != 0;
    return true;
  }

  Seat seat_;
  std::vector<float> data_;
  ncclComm_t comm_ = nullptr;
  stepgate_gate* gate_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const Seat seat{argv[1], static_cast<int>(std::strtol(argv[2], nullptr, 10)),
                  static_cast<int>(std::strtol(argv[3], nullptr, 10)), std::strtoull(argv[4], nullptr, 10)};
  Rank rank(seat);
  char url[200] = "";
  stepgate_client_metrics_url(url, sizeof url);
  std::printf("page %s\n", url);
  std::fflush(stdout);
  for (long round = 0; (round = next_round(seat.folder, round)) > 0;) rank.run(round);
  rank.end();
  std::printf("done\n");
  return 0;
}

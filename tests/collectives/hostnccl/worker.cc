// One rank as a process of its own, for process_test.cc.
//
//   hostnccl_worker MODE RANK SIZE [ID]
//
// Without ID it makes one and prints it in hexadecimal as its first line. It prints what it saw, exits
// with 0 if that was what the mode expects, and is ended by SIGALRM after a minute in any case.
#include "tests/collectives/hostnccl/worker.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using namespace hostnccl_worker;  // NOLINT(google-build-using-namespace): one small program

namespace {

constexpr unsigned kSecondsToLive = 60;

void print_id(const ncclUniqueId& id) {
  for (const char byte : id.internal) std::printf("%02x", static_cast<unsigned char>(byte));
  std::printf("\n");
  std::fflush(stdout);
}

ncclUniqueId make_or_read_id(const char* hex) {
  ncclUniqueId id = {};
  if (hex == nullptr) {
    expect(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
    print_id(id);
    return id;
  }
  expect(std::strlen(hex) == 2 * sizeof id.internal, "length of the id");
  for (std::size_t i = 0; i < sizeof id.internal; ++i) {
    id.internal[i] = static_cast<char>(std::stoi(std::string(hex + 2 * i, 2), nullptr, 16));
  }
  return id;
}

ncclResult_t sum_ones(ncclComm_t comm, std::size_t count, int size) {
  std::vector<float> data(count, 1.0F);
  const ncclResult_t result =
      ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr);
  if (result == ncclSuccess) {
    for (const float value : data) expect(value == static_cast<float>(size), "value of the sum");
  }
  return result;
}

void work(Place place, const ncclUniqueId& id) {
  ncclComm_t comm = join(place, id);
  for (std::size_t count = 1; count < 3'000'000; count = count * 3 + 1) {
    expect(sum_ones(comm, count, place.size) == ncclSuccess, "ncclAllReduce");
  }
  expect(ncclCommFinalize(comm) == ncclSuccess, "ncclCommFinalize");
  expect(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
}

// The last rank dies after its part of the first collective; the others must be told who it was, and be able
// to leave.
void lose_the_last_rank(Place place, const ncclUniqueId& id) {
  const int victim = place.size - 1;
  ncclComm_t comm = join(place, id);
  ncclResult_t result = sum_ones(comm, 1000, place.size);
  if (place.rank == victim) raise(SIGKILL);
  // The victim's share of the first sum may be all that a slower rank ever gets to see of it.
  if (result == ncclSuccess) result = sum_ones(comm, 200'000, place.size);
  expect(result == ncclRemoteError, "code after the death");
  const std::string message = ncclGetLastError(comm);
  std::printf("told: %s\n", message.c_str());
  expect(message.find("rank " + std::to_string(victim)) != std::string::npos, "name of the dead rank");
  ncclResult_t state = ncclSuccess;
  expect(ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclRemoteError,
         "asynchronous error");
  expect(sum_ones(comm, 10, place.size) == ncclRemoteError, "code of a later call");
  const bool destroys = place.rank % 2 == 0;
  expect((destroys ? ncclCommDestroy(comm) : ncclCommAbort(comm)) == ncclSuccess, "leaving");
}

void wait_for_nobody(Place place, const ncclUniqueId& id) {
  ncclComm_t comm = nullptr;
  const ncclResult_t result = ncclCommInitRank(&comm, place.size, id, place.rank);
  std::printf("told: %s\n", ncclGetLastError(nullptr));
  expect(result == ncclRemoteError && comm == nullptr, "code at the deadline");
}

void refuse_the_environment(Place place, const ncclUniqueId& id) {
  ncclComm_t comm = nullptr;
  const ncclResult_t result = ncclCommInitRank(&comm, place.size, id, place.rank);
  std::printf("told: %s\n", ncclGetLastError(nullptr));
  expect(result == ncclInvalidUsage && comm == nullptr, "code for a bad value");
}

// A child may not communicate with what it inherited, and must not harm the parent by trying or exiting.
int try_in_child(ncclComm_t comm, const ncclUniqueId& id) {
  int count = 0;
  ncclUniqueId other;
  ncclComm_t made = nullptr;
  const bool refused = ncclCommCount(comm, &count) == ncclInvalidUsage &&
                       ncclGetUniqueId(&other) == ncclInvalidUsage &&
                       ncclCommInitRank(&made, 1, id, 0) == ncclInvalidUsage &&
                       sum_ones(comm, 10, 2) == ncclInvalidUsage && ncclCommAbort(comm) == ncclInvalidUsage;
  return refused && std::string(ncclGetLastError(nullptr)).find("forked") != std::string::npos ? 0 : 1;
}

void fork_in_between(Place place, const ncclUniqueId& id) {
  ncclComm_t comm = join(place, id);
  expect(sum_ones(comm, 1000, place.size) == ncclSuccess, "ncclAllReduce before the fork");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSecondsToLive);
    std::exit(try_in_child(comm, id));
  }
  int status = 0;
  expect(waitpid(child, &status, 0) == child && status == 0, "the child");
  expect(sum_ones(comm, 100'000, place.size) == ncclSuccess, "ncclAllReduce after the fork");
  expect(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
}

struct Mode {
  const char* name;
  void (*run)(Place, const ncclUniqueId&);
};

constexpr Mode kModes[] = {{"work", work},
                           {"lose", lose_the_last_rank},
                           {"alone", wait_for_nobody},
                           {"refuse", refuse_the_environment},
                           {"fork", fork_in_between},
                           {"pairs", exchange_with_all},
                           {"lose-sender", lose_the_sender},
                           {"lose-receiver", lose_the_receiver},
                           {"split", split_and_work},
                           {"lose-in-split", lose_a_rank_in_a_split},
                           {"shrink", shrink_after_a_death},
                           {"shrink-first", shrink_after_the_first_rank_died},
                           {"device", work_on_device},
                           {"lose-device", lose_the_last_rank_of_devices}};

}  // namespace

int main(int argc, char** argv) {
  alarm(kSecondsToLive);
  if (argc != 4 && argc != 5) fail("usage: hostnccl_worker MODE RANK SIZE [ID]");
  const Place place = {std::atoi(argv[2]), std::atoi(argv[3])};
  for (const Mode& mode : kModes) {
    if (std::strcmp(mode.name, argv[1]) != 0) continue;
    mode.run(place, make_or_read_id(argc == 5 ? argv[4] : nullptr));
    std::printf("done\n");
    return 0;
  }
  fail("no such mode");
}

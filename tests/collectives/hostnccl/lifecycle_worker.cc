// hostnccl_worker's modes that split and shrink.
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/collectives/hostnccl/worker.h"

namespace hostnccl_worker {
namespace {

ncclResult_t sum(ncclComm_t comm, int value, int* total) {
  std::vector<int> data(30'000, value);
  const ncclResult_t result =
      ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, comm, nullptr);
  *total = data.back();
  return result;
}

void expect_sum(ncclComm_t comm, int value, int expected) {
  int total = 0;
  expect(sum(comm, value, &total) == ncclSuccess, "ncclAllReduce of the new communicator");
  expect(total == expected, "its sum");
}

int sum_of_ranks(int size) {
  return size * (size - 1) / 2;
}

void shrink_without(Place place, const ncclUniqueId& id, int victim) {
  ncclComm_t comm = join(place, id);
  int total = 0;
  ncclResult_t result = sum(comm, place.rank, &total);
  if (place.rank == victim) raise(SIGKILL);
  // The victim's share may still be on its way when it dies.
  for (int i = 0; i < 2 && result == ncclSuccess; ++i) result = sum(comm, 1, &total);
  expect(result == ncclRemoteError, "code after the death");
  ncclComm_t rest = nullptr;
  expect(ncclCommShrink(comm, &victim, 1, &rest, nullptr, NCCL_SHRINK_ABORT) == ncclSuccess,
         "ncclCommShrink");
  expect(ncclCommAbort(comm) == ncclSuccess, "ncclCommAbort of the old one");
  for (int i = 0; i < 20; ++i) expect_sum(rest, place.rank, sum_of_ranks(place.size) - victim);
  expect(ncclCommDestroy(rest) == ncclSuccess, "ncclCommDestroy");
}

}  // namespace

void split_and_work(Place place, const ncclUniqueId& id) {
  ncclComm_t comm = join(place, id);
  ncclComm_t child = nullptr;
  expect(ncclCommSplit(comm, place.rank % 2, -place.rank, &child, nullptr) == ncclSuccess, "ncclCommSplit");
  int expected = 0;
  for (int rank = place.rank % 2; rank < place.size; rank += 2) expected += rank;
  for (int i = 0; i < 20; ++i) expect_sum(child, place.rank, expected);
  expect_sum(comm, place.rank, sum_of_ranks(place.size));
  expect(ncclCommDestroy(child) == ncclSuccess, "ncclCommDestroy of the child");
  expect(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
}

// It dies between the two halves: its color is known, and then it does not come.
void lose_a_rank_in_a_split(Place place, const ncclUniqueId& id) {
  const int victim = place.size - 1;
  ncclComm_t comm = join(place, id);
  if (place.rank == victim) {
    const int mine[2] = {0, victim};
    std::vector<int> all(2 * static_cast<std::size_t>(place.size));
    expect(ncclAllGather(mine, all.data(), 2, ncclInt32, comm, nullptr) == ncclSuccess, "the first half");
    raise(SIGKILL);
  }
  ncclComm_t child = nullptr;
  expect(ncclCommSplit(comm, 0, place.rank, &child, nullptr) == ncclRemoteError, "code of the split");
  const std::string message = ncclGetLastError(comm);
  std::printf("told: %s\n", message.c_str());
  expect(message.find("rank " + std::to_string(victim)) != std::string::npos, "name of the dead rank");
  expect(child == nullptr, "no child");
  expect(ncclCommAbort(comm) == ncclSuccess, "leaving");
}

void shrink_after_a_death(Place place, const ncclUniqueId& id) {
  shrink_without(place, id, place.size - 1);
}

// Its process keeps the control channel of all.
void shrink_after_the_first_rank_died(Place place, const ncclUniqueId& id) {
  shrink_without(place, id, 0);
}

}  // namespace hostnccl_worker

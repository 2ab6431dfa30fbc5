// hostnccl_worker's part with messages between two ranks.
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/collectives/hostnccl/worker.h"

namespace hostnccl_worker {
namespace {

// Too long to be on its way before the other side takes it.
constexpr std::size_t kLong = 4'000'000;

// The rank that dies has said that it is about to.
void expect_to_be_told(ncclResult_t result, ncclComm_t comm, int victim) {
  expect(result == ncclRemoteError, "code after the death");
  const std::string message = ncclGetLastError(comm);
  std::printf("told: %s\n", message.c_str());
  expect(message.find("rank " + std::to_string(victim)) != std::string::npos, "name of the dead rank");
  expect(ncclCommAbort(comm) == ncclSuccess, "leaving");
}

}  // namespace

void exchange_with_all(Place place, const ncclUniqueId& id) {
  ncclComm_t comm = join(place, id);
  const auto ranks = static_cast<std::size_t>(place.size);
  for (const std::size_t count : {std::size_t{1}, std::size_t{1001}, std::size_t{700'000}}) {
    std::vector<int> out(count * ranks);
    std::vector<int> in(count * ranks, -1);
    std::vector<int> transposed(count * ranks, -1);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = place.rank * 100 + static_cast<int>(i / count);
    expect(ncclGroupStart() == ncclSuccess, "ncclGroupStart");
    for (int peer = 0; peer < place.size; ++peer) {
      const std::size_t at = static_cast<std::size_t>(peer) * count;
      expect(ncclSend(&out[at], count, ncclInt32, peer, comm, nullptr) == ncclSuccess, "ncclSend");
      expect(ncclRecv(&in[at], count, ncclInt32, peer, comm, nullptr) == ncclSuccess, "ncclRecv");
    }
    expect(ncclAlltoAll(out.data(), transposed.data(), count, ncclInt32, comm, nullptr) == ncclSuccess,
           "ncclAlltoAll");
    expect(ncclGroupEnd() == ncclSuccess, "ncclGroupEnd");
    for (std::size_t i = 0; i < in.size(); ++i)
      expect(in[i] == static_cast<int>(i / count) * 100 + place.rank, "what the others sent");
    expect(in == transposed, "the same twice");
  }
  expect(ncclCommDestroy(comm) == ncclSuccess, "ncclCommDestroy");
}

// The last rank dies while the others are in `call` with it.
template <class Call>
void lose_the_last(Place place, const ncclUniqueId& id, Call call) {
  const int victim = place.size - 1;
  ncclComm_t comm = join(place, id);
  std::vector<int> data(kLong);
  if (place.rank == victim) {
    usleep(300'000);
    raise(SIGKILL);
  }
  expect_to_be_told(call(data.data(), kLong, ncclInt32, victim, comm, nullptr), comm, victim);
}

void lose_the_sender(Place place, const ncclUniqueId& id) {
  lose_the_last(place, id, ncclRecv);
}

void lose_the_receiver(Place place, const ncclUniqueId& id) {
  lose_the_last(place, id, ncclSend);
}

}  // namespace hostnccl_worker

// What only moves bytes, against Open MPI's own: all-gather, broadcast, gather, scatter, all-to-all, send and
// receive. MPI moves the types that it does not have as bytes.
#include <string>
#include <vector>

#include "tests/collectives/hostnccl_mpi/checker.h"
#include "tests/collectives/hostnccl_mpi/types.h"

namespace stepgate::hostnccl::test {
namespace {

struct Case {
  TypePair type;
  std::size_t count;
  int root;

  std::string what(const char* how = "") const {
    return std::string(type.name) + " of " + std::to_string(count) + " root " + std::to_string(root) + how;
  }
  TypedBuffer buffer(std::size_t shares) const { return TypedBuffer(type.type, count * shares); }
  int bytes() const { return static_cast<int>(buffer(1).bytes().size()); }
};

// `shares` times count elements of this rank's.
TypedBuffer samples(const Case& c, int rank, std::size_t shares) {
  TypedBuffer buffer = c.buffer(shares);
  for (std::size_t i = 0; i < c.count * shares; ++i) buffer.set(i, sample(c.type.type, ncclSum, rank, i));
  return buffer;
}

void put(TypedBuffer* to, std::size_t at, TypedBuffer* from) {
  std::memcpy(to->at(at), from->data(), from->bytes().size());
}

void all_gather(Checker* checker, ncclComm_t comm, const Case& c) {
  TypedBuffer in = samples(c, checker->rank(), 1);
  TypedBuffer want = c.buffer(checker->ranks()), out = want, both = want;
  MPI_Allgather(in.data(), c.bytes(), MPI_BYTE, want.data(), c.bytes(), MPI_BYTE, MPI_COMM_WORLD);
  checker->nccl(ncclAllGather(in.data(), out.data(), c.count, c.type.type, comm, nullptr), "ncclAllGather");
  checker->same(out, want, "all-gather", c.what());
  const std::size_t place = checker->place() * c.count;
  put(&both, place, &in);
  checker->nccl(ncclAllGather(both.at(place), both.data(), c.count, c.type.type, comm, nullptr),
                "ncclAllGather");
  checker->same(both, want, "all-gather", c.what(" in place"));
}

void broadcast(Checker* checker, ncclComm_t comm, const Case& c) {
  TypedBuffer in = samples(c, checker->rank(), 1);
  TypedBuffer want = in, out = c.buffer(1);
  MPI_Bcast(want.data(), c.bytes(), MPI_BYTE, c.root, MPI_COMM_WORLD);
  checker->nccl(ncclBroadcast(in.data(), out.data(), c.count, c.type.type, c.root, comm, nullptr),
                "ncclBroadcast");
  checker->same(out, want, "broadcast", c.what());
  checker->nccl(ncclBcast(in.data(), c.count, c.type.type, c.root, comm, nullptr), "ncclBcast");
  checker->same(in, want, "broadcast", c.what(" in place"));
}

void gather(Checker* checker, ncclComm_t comm, const Case& c) {
  TypedBuffer in = samples(c, checker->rank(), 1);
  TypedBuffer want = c.buffer(checker->ranks()), out = want, both = want;
  const std::size_t place = checker->place() * c.count;
  put(&both, place, &in);
  const bool root = checker->rank() == c.root;
  if (!root) want = both;  // off the root nothing may change
  MPI_Gather(in.data(), c.bytes(), MPI_BYTE, root ? want.data() : nullptr, c.bytes(), MPI_BYTE, c.root,
             MPI_COMM_WORLD);
  checker->nccl(ncclGather(in.data(), out.data(), c.count, c.type.type, c.root, comm, nullptr), "ncclGather");
  if (root) checker->same(out, want, "gather", c.what());
  checker->nccl(ncclGather(both.at(place), both.data(), c.count, c.type.type, c.root, comm, nullptr),
                "ncclGather");
  checker->same(both, want, "gather", c.what(" in place"));
}

void scatter(Checker* checker, ncclComm_t comm, const Case& c) {
  TypedBuffer all = samples(c, checker->rank(), checker->ranks());
  TypedBuffer want = c.buffer(1), out = want;
  MPI_Scatter(all.data(), c.bytes(), MPI_BYTE, want.data(), c.bytes(), MPI_BYTE, c.root, MPI_COMM_WORLD);
  checker->nccl(ncclScatter(all.data(), out.data(), c.count, c.type.type, c.root, comm, nullptr),
                "ncclScatter");
  checker->same(out, want, "scatter", c.what());
  TypedBuffer before = all;
  const bool root = checker->rank() == c.root;
  void* target = root ? all.at(checker->place() * c.count) : out.data();
  checker->nccl(ncclScatter(all.data(), target, c.count, c.type.type, c.root, comm, nullptr), "ncclScatter");
  checker->same(out, want, "scatter", c.what(" in place"));
  checker->same(all, before, "scatter", c.what(" in place, the source"));
}

void all_to_all(Checker* checker, ncclComm_t comm, const Case& c) {
  TypedBuffer in = samples(c, checker->rank(), checker->ranks());
  TypedBuffer want = c.buffer(checker->ranks()), out = want;
  MPI_Alltoall(in.data(), c.bytes(), MPI_BYTE, want.data(), c.bytes(), MPI_BYTE, MPI_COMM_WORLD);
  checker->nccl(ncclAlltoAll(in.data(), out.data(), c.count, c.type.type, comm, nullptr), "ncclAlltoAll");
  checker->same(out, want, "all-to-all", c.what());
}

// A shift by `distance` ranks: with MPI_Sendrecv, and in a group. Distance 0 is a message to itself.
void send_and_receive(Checker* checker, ncclComm_t comm, const Case& c, int distance) {
  const int size = checker->size();
  const int to = (checker->rank() + distance) % size;
  const int from = (checker->rank() + size - distance) % size;
  TypedBuffer in = samples(c, checker->rank(), 1);
  TypedBuffer want = c.buffer(1), out = want;
  MPI_Sendrecv(in.data(), c.bytes(), MPI_BYTE, to, 0, want.data(), c.bytes(), MPI_BYTE, from, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  checker->nccl(ncclGroupStart(), "ncclGroupStart");
  checker->nccl(ncclSend(in.data(), c.count, c.type.type, to, comm, nullptr), "ncclSend");
  checker->nccl(ncclRecv(out.data(), c.count, c.type.type, from, comm, nullptr), "ncclRecv");
  checker->nccl(ncclGroupEnd(), "ncclGroupEnd");
  checker->same(out, want, "send and receive", c.what());
}

}  // namespace

void check_movements(Checker* checker, ncclComm_t comm) {
  for (const TypePair& type : kTypePairs) {
    for (const std::size_t count : kOddCounts) {
      for (const int root : {0, checker->size() - 1}) {
        const Case c{type, count, root};
        broadcast(checker, comm, c);
        gather(checker, comm, c);
        scatter(checker, comm, c);
      }
      const Case c{type, count, 0};
      all_gather(checker, comm, c);
      all_to_all(checker, comm, c);
      for (const int distance : {0, 1, checker->size() / 2})
        send_and_receive(checker, comm, c, distance % checker->size());
    }
  }
}

}  // namespace stepgate::hostnccl::test

// All-reduce, reduce and reduce-scatter against Open MPI's where it has the type and the operator, else
// against the sum, product and so on in fp64.
#include <string>

#include "tests/collectives/hostnccl_mpi/checker.h"
#include "tests/collectives/hostnccl_mpi/types.h"

namespace stepgate::hostnccl::test {
namespace {

struct Case {
  TypePair type;
  OpPair op;
  std::size_t count;
  bool in_place;

  bool mpi() const { return type.mpi != MPI_DATATYPE_NULL && op.mpi != MPI_OP_NULL; }
  std::string what() const {
    return std::string(type.name) + " " + op.name + " of " + std::to_string(count) +
           (in_place ? " in place" : "");
  }
};

TypedBuffer samples(const Case& c, int rank, std::size_t count) {
  TypedBuffer buffer(c.type.type, count);
  for (std::size_t i = 0; i < count; ++i) buffer.set(i, sample(c.type.type, c.op.op, rank, i));
  return buffer;
}

// Elements [at, at + want's) of `got` with what MPI made, or with the reference from element `first` on.
void compare(Checker* checker, const char* collective, const Case& c, const TypedBuffer& got, std::size_t at,
             const TypedBuffer& want, std::size_t first) {
  bool same = true;
  for (std::size_t i = 0; same && i < c.count; ++i) {
    const double there = got.get(at + i);
    same = c.mpi() ? there == want.get(i)
                   : matches(c.type.type, there, reduced(c.type.type, c.op.op, checker->size(), first + i));
  }
  checker->note(same, collective, c.what());
}

void all_reduce(Checker* checker, ncclComm_t comm, const Case& c) {
  TypedBuffer in = samples(c, checker->rank(), c.count);
  TypedBuffer out(c.type.type, c.count);
  TypedBuffer want(c.type.type, c.count);
  if (c.mpi())
    MPI_Allreduce(in.data(), want.data(), static_cast<int>(c.count), c.type.mpi, c.op.mpi, MPI_COMM_WORLD);
  TypedBuffer& target = c.in_place ? in : out;
  checker->nccl(ncclAllReduce(in.data(), target.data(), c.count, c.type.type, c.op.op, comm, nullptr),
                "ncclAllReduce");
  compare(checker, "all-reduce", c, target, 0, want, 0);
}

void reduce(Checker* checker, ncclComm_t comm, const Case& c, int root) {
  TypedBuffer in = samples(c, checker->rank(), c.count);
  TypedBuffer out(c.type.type, c.count);
  TypedBuffer want(c.type.type, c.count);
  const bool collects = checker->rank() == root;
  if (c.mpi())
    MPI_Reduce(in.data(), want.data(), static_cast<int>(c.count), c.type.mpi, c.op.mpi, root, MPI_COMM_WORLD);
  TypedBuffer& target = c.in_place ? in : out;
  const TypedBuffer before = target;
  checker->nccl(ncclReduce(in.data(), target.data(), c.count, c.type.type, c.op.op, root, comm, nullptr),
                "ncclReduce");
  if (collects)
    compare(checker, "reduce", c, target, 0, want, 0);
  else
    checker->same(target, before, "reduce", c.what() + " off the root");
}

void reduce_scatter(Checker* checker, ncclComm_t comm, const Case& c) {
  const std::size_t first = checker->place() * c.count;
  TypedBuffer in = samples(c, checker->rank(), c.count * checker->ranks());
  TypedBuffer out(c.type.type, c.count);
  TypedBuffer want(c.type.type, c.count);
  if (c.mpi())
    MPI_Reduce_scatter_block(in.data(), want.data(), static_cast<int>(c.count), c.type.mpi, c.op.mpi,
                             MPI_COMM_WORLD);
  void* target = c.in_place ? in.at(first) : out.data();
  checker->nccl(ncclReduceScatter(in.data(), target, c.count, c.type.type, c.op.op, comm, nullptr),
                "ncclReduceScatter");
  compare(checker, "reduce-scatter", c, c.in_place ? in : out, c.in_place ? first : 0, want, first);
}

// A factor per rank, as whole as the values, and small enough for fp8.
double factor(ncclDataType_t type, int rank) {
  if (is_fp8(type)) return rank % 2 == 0 ? 1 : -1;
  return is_integer(type) ? 1 + rank % 2 : rank % 2 == 0 ? 2 : -1;
}

// The sum of the products, by MPI or in fp64.
void own_operator(Checker* checker, ncclComm_t comm, const Case& c, ncclScalarResidence_t residence) {
  const ncclDataType_t type = c.type.type;
  TypedBuffer scalar(type, 1);
  scalar.set(0, factor(type, checker->rank()));
  ncclRedOp_t op = ncclSum;
  checker->nccl(ncclRedOpCreatePreMulSum(&op, scalar.data(), type, residence, comm),
                "ncclRedOpCreatePreMulSum");
  TypedBuffer in = samples(c, checker->rank(), c.count);
  TypedBuffer products(type, c.count);
  TypedBuffer want(type, c.count);
  for (std::size_t i = 0; i < c.count; ++i) products.set(i, in.get(i) * factor(type, checker->rank()));
  if (c.mpi()) {
    MPI_Allreduce(products.data(), want.data(), static_cast<int>(c.count), c.type.mpi, MPI_SUM,
                  MPI_COMM_WORLD);
  } else {
    for (std::size_t i = 0; i < c.count; ++i) {
      double sum = 0;
      for (int rank = 0; rank < checker->size(); ++rank)
        sum += factor(type, rank) * sample(type, ncclSum, rank, i);
      want.set(i, sum);
    }
  }
  TypedBuffer out(type, c.count);
  TypedBuffer& target = c.in_place ? in : out;
  checker->nccl(ncclAllReduce(in.data(), target.data(), c.count, type, op, comm, nullptr), "ncclAllReduce");
  checker->nccl(ncclRedOpDestroy(op, comm), "ncclRedOpDestroy");
  bool same = true;
  for (std::size_t i = 0; i < c.count; ++i) same = same && target.get(i) == want.get(i);
  checker->note(same, "pre-multiplied sum", c.what());
}

}  // namespace

void check_reductions(Checker* checker, ncclComm_t comm) {
  for (const TypePair& type : kTypePairs) {
    for (const OpPair& op : kOpPairs) {
      for (const std::size_t count : kOddCounts) {
        for (const bool in_place : {false, true}) {
          const Case c{type, op, count, in_place};
          all_reduce(checker, comm, c);
          reduce_scatter(checker, comm, c);
          reduce(checker, comm, c, 0);
          reduce(checker, comm, c, checker->size() - 1);
        }
      }
    }
  }
}

void check_own_operators(Checker* checker, ncclComm_t comm) {
  for (const TypePair& type : kTypePairs) {
    for (const std::size_t count : kOddCounts) {
      for (const bool in_place : {false, true}) {
        const Case c{type, kOpPairs[0], count, in_place};
        own_operator(checker, comm, c, ncclScalarHostImmediate);
        own_operator(checker, comm, c, ncclScalarDevice);
      }
    }
  }
}

}  // namespace stepgate::hostnccl::test

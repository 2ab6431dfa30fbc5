// The rows of RETURN_CODES.md about collectives and operators.
#include "tests/collectives/hostnccl/return_codes.h"

namespace stepgate::hostnccl::test {
namespace {

constexpr int kNoType = ncclNumTypes;
constexpr int kNoOp = ncclNumOps;

// What a call of one rank is given; each case differs in one thing.
struct Given {
  std::size_t count = 4;
  int type = ncclFloat32;
  int op = ncclSum;
  int rank = 0;                   // root or peer
  bool send = true, recv = true;  // false: NULL
  std::size_t behind = 64;        // where the receive buffer begins behind the send buffer, in bytes
};

alignas(8) unsigned char memory_of_one[256];

ncclResult_t call_one(const std::string& name, const Given& g, ncclComm_t comm) {
  const void* in = g.send ? memory_of_one : nullptr;
  void* out = g.recv ? memory_of_one + g.behind : nullptr;
  const auto type = static_cast<ncclDataType_t>(g.type);
  const auto op = static_cast<ncclRedOp_t>(g.op);
  if (name == "ncclAllReduce") return ncclAllReduce(in, out, g.count, type, op, comm, nullptr);
  if (name == "ncclReduceScatter") return ncclReduceScatter(in, out, g.count, type, op, comm, nullptr);
  if (name == "ncclReduce") return ncclReduce(in, out, g.count, type, op, g.rank, comm, nullptr);
  if (name == "ncclAllGather") return ncclAllGather(in, out, g.count, type, comm, nullptr);
  if (name == "ncclAlltoAll") return ncclAlltoAll(in, out, g.count, type, comm, nullptr);
  if (name == "ncclBroadcast") return ncclBroadcast(in, out, g.count, type, g.rank, comm, nullptr);
  if (name == "ncclBcast") return ncclBcast(out, g.count, type, g.rank, comm, nullptr);
  if (name == "ncclGather") return ncclGather(in, out, g.count, type, g.rank, comm, nullptr);
  if (name == "ncclScatter") return ncclScatter(in, out, g.count, type, g.rank, comm, nullptr);
  if (name == "ncclSend") return ncclSend(in, g.count, type, g.rank, comm, nullptr);
  if (name == "ncclRecv") return ncclRecv(out, g.count, type, g.rank, comm, nullptr);
  ADD_FAILURE() << name << " is none of these";
  return ncclSuccess;
}

void add(std::vector<ReturnTest>* tests, const std::vector<const char*>& names, const char* what,
         const Given& g) {
  for (const char* name : names) {
    tests->push_back(
        {{name, what}, [name = std::string(name), g] { return call_one(name, g, One().get()); }});
  }
}

std::vector<ReturnTest> arguments() {
  const std::vector<const char*> all = {"ncclAllReduce", "ncclReduceScatter", "ncclReduce", "ncclAllGather",
                                        "ncclAlltoAll",  "ncclBroadcast",     "ncclBcast",  "ncclGather",
                                        "ncclScatter",   "ncclSend",          "ncclRecv"};
  std::vector<ReturnTest> tests;
  tests.reserve(all.size());
  for (const char* name : all) {
    tests.push_back({{name, "comm is NULL"}, [n = std::string(name)] { return call_one(n, {}, nullptr); }});
  }
  add(&tests, all, "datatype 12", {.type = kNoType});
  add(&tests, {"ncclAllReduce"}, "datatype -1", {.type = -1});
  add(&tests, {"ncclAllReduce"}, "datatype 12, count 0", {.count = 0, .type = kNoType});
  const std::vector<const char*> reductions = {"ncclAllReduce", "ncclReduceScatter", "ncclReduce"};
  add(&tests, reductions, "op 5, which nobody made", {.op = kNoOp});
  add(&tests, reductions, "op -1", {.op = -1});
  const std::vector<const char*> rooted = {"ncclReduce", "ncclBroadcast", "ncclBcast", "ncclGather",
                                           "ncclScatter"};
  add(&tests, rooted, "root is nranks", {.rank = 1});
  add(&tests, rooted, "root -1", {.rank = -1});
  add(&tests, {"ncclSend", "ncclRecv"}, "peer is nranks", {.rank = 1});
  add(&tests, {"ncclSend", "ncclRecv"}, "peer -1", {.rank = -1});
  return tests;
}

std::vector<ReturnTest> buffers() {
  std::vector<ReturnTest> tests;
  add(&tests, {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclAlltoAll", "ncclSend"},
      "sendbuff is NULL", {.send = false});
  add(&tests, {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclAlltoAll", "ncclRecv"},
      "recvbuff is NULL", {.recv = false});
  add(&tests, {"ncclReduce", "ncclGather"}, "recvbuff is NULL on the root", {.recv = false});
  add(&tests, {"ncclBroadcast", "ncclScatter"}, "sendbuff is NULL on the root", {.send = false});
  add(&tests, {"ncclAllReduce"}, "count 0, no buffers", {.count = 0, .send = false, .recv = false});
  add(&tests, {"ncclAllReduce", "ncclAllGather"}, "buffers overlap, not in place", {.behind = 8});
  add(&tests, {"ncclAllReduce", "ncclAllGather"}, "in place", {.behind = 0});
  add(&tests, {"ncclAlltoAll"}, "in place", {.behind = 0});
  add(&tests, {"ncclAllReduce"}, "bytes beyond memory", {.count = static_cast<std::size_t>(-1) / 2});
  add(&tests, {"ncclAllReduce"}, "fp8 e4m3", {.type = ncclFloat8e4m3});
  add(&tests, {"ncclAllReduce"}, "fp8 e5m2", {.type = ncclFloat8e5m2});
  return tests;
}

// In a group: what of the own rank's messages, 0 elements for none.
ncclResult_t to_itself(std::size_t sent, std::size_t received) {
  const One one;
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  if (sent != 0) {
    EXPECT_EQ(call_one("ncclSend", {.count = sent}, one.get()), ncclSuccess) << failure();
  }
  if (received != 0) {
    EXPECT_EQ(call_one("ncclRecv", {.count = received}, one.get()), ncclSuccess) << failure();
  }
  return ncclGroupEnd();
}

std::vector<ReturnTest> messages() {
  std::vector<ReturnTest> tests = {
      {{"ncclGroupEnd", "ncclSend to the own rank alone"}, [] { return to_itself(4, 0); }},
      {{"ncclGroupEnd", "ncclRecv from the own rank alone"}, [] { return to_itself(0, 4); }},
      {{"ncclGroupEnd", "ncclSend and ncclRecv with the own rank"}, [] { return to_itself(4, 4); }},
      {{"ncclGroupEnd", "the same, of different counts"}, [] { return to_itself(4, 3); }},
  };
  add(&tests, {"ncclSend", "ncclRecv"}, "the own rank, outside a group", {});
  return tests;
}

// An operator that multiplies fp32 by two.
ncclResult_t make_op(ncclRedOp_t* op, ncclComm_t comm, int type = ncclFloat32) {
  float two = 2;
  return ncclRedOpCreatePreMulSum(op, &two, static_cast<ncclDataType_t>(type), ncclScalarHostImmediate, comm);
}

ncclRedOp_t made(ncclComm_t comm) {
  ncclRedOp_t op = ncclSum;
  EXPECT_EQ(make_op(&op, comm), ncclSuccess) << failure();
  return op;
}

ncclResult_t sum_by(int type, std::size_t count) {
  const One one;
  return call_one("ncclAllReduce", {.count = count, .type = type, .op = made(one.get())}, one.get());
}

ncclResult_t destroyed_twice() {
  const One one;
  const ncclRedOp_t op = made(one.get());
  EXPECT_EQ(ncclRedOpDestroy(op, one.get()), ncclSuccess) << failure();
  return ncclRedOpDestroy(op, one.get());
}

ncclResult_t of_another(bool destroy) {
  const One one, other;
  const ncclRedOp_t op = made(one.get());
  if (destroy) return ncclRedOpDestroy(op, other.get());
  return call_one("ncclAllReduce", {.op = op}, other.get());
}

std::vector<ReturnTest> operators() {
  static ncclRedOp_t op = ncclSum;
  static float two = 2;
  return {
      {{"ncclAllReduce", "an operator of the program's"}, [] { return sum_by(ncclFloat32, 4); }},
      {{"ncclAllReduce", "an operator of another data type"}, [] { return sum_by(ncclInt32, 4); }},
      {{"ncclAllReduce", "an operator of another data type, count 0"}, [] { return sum_by(ncclInt32, 0); }},
      {{"ncclAllReduce", "an operator of another communicator"}, [] { return of_another(false); }},
      {{"ncclRedOpCreatePreMulSum", "op is NULL"}, [] { return make_op(nullptr, One().get()); }},
      {{"ncclRedOpCreatePreMulSum", "scalar is NULL"},
       [] {
         return ncclRedOpCreatePreMulSum(&op, nullptr, ncclFloat32, ncclScalarHostImmediate, One().get());
       }},
      {{"ncclRedOpCreatePreMulSum", "comm is NULL"}, [] { return make_op(&op, nullptr); }},
      {{"ncclRedOpCreatePreMulSum", "datatype 12, immediate"},
       [] { return make_op(&op, One().get(), kNoType); }},
      {{"ncclRedOpCreatePreMulSum", "a scalar on the device"},
       [] { return ncclRedOpCreatePreMulSum(&op, &two, ncclFloat32, ncclScalarDevice, One().get()); }},
      {{"ncclRedOpDestroy", "an operator of NCCL's"}, [] { return ncclRedOpDestroy(ncclSum, One().get()); }},
      {{"ncclRedOpDestroy", "op -1"},
       [] { return ncclRedOpDestroy(static_cast<ncclRedOp_t>(-1), One().get()); }},
      {{"ncclRedOpDestroy", "op 5, which nobody made"},
       [] { return ncclRedOpDestroy(static_cast<ncclRedOp_t>(kNoOp), One().get()); }},
      {{"ncclRedOpDestroy", "comm is NULL"},
       [] { return ncclRedOpDestroy(static_cast<ncclRedOp_t>(kNoOp), nullptr); }},
      {{"ncclRedOpDestroy", "an operator of another communicator"}, [] { return of_another(true); }},
      {{"ncclRedOpDestroy", "a second time"}, [] { return destroyed_twice(); }},
  };
}

}  // namespace

std::vector<ReturnTest> collective_return_codes() {
  std::vector<ReturnTest> all;
  for (const auto& part : {arguments(), buffers(), messages(), operators()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace stepgate::hostnccl::test

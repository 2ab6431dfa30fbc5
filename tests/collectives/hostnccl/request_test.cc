#include "collectives/hostnccl/request.h"

#include <gtest/gtest.h>

#include <limits>

namespace stepgate::hostnccl {
namespace {

constexpr int kRank = 1;
constexpr int kSize = 4;
constexpr std::size_t kCount = 4;
alignas(8) unsigned char arena[1024];

// Buffers as offsets into `arena`, so that overlaps can be written down; kNull stands for NULL.
constexpr int kNull = -1;

struct Row {
  const char* what;
  ncclResult_t expected;
  Collective kind;
  int send;
  int recv;
  std::size_t count = kCount;
  int type = ncclFloat32;
  int op = ncclSum;
  int root = 0;
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.what;
}

void* at(int offset) {
  return offset == kNull ? nullptr : arena + offset;
}

class RequestChecks : public testing::TestWithParam<Row> {};

TEST_P(RequestChecks, AnswersAsNccl) {
  const Row& row = GetParam();
  const Request request{row.kind, at(row.send), at(row.recv), row.count, row.type, row.op, row.root};
  const Outcome outcome = check(request, kRank, kSize);
  EXPECT_EQ(outcome.code, row.expected) << outcome.message;
  EXPECT_EQ(outcome.message.empty(), outcome.ok()) << "every refusal says why";
}

constexpr Collective kAr = Collective::kAllReduce;
constexpr Collective kRs = Collective::kReduceScatter;
constexpr Collective kAg = Collective::kAllGather;
constexpr Collective kBc = Collective::kBroadcast;
constexpr Collective kRd = Collective::kReduce;
constexpr Collective kGa = Collective::kGather;
constexpr Collective kSc = Collective::kScatter;
constexpr Collective kA2 = Collective::kAlltoAll;
constexpr Collective kSe = Collective::kSend;
constexpr Collective kRe = Collective::kRecv;
constexpr int kShare = 16;  // bytes: 4 floats
constexpr ncclResult_t kArgument = ncclInvalidArgument;
constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max() / 2;

constexpr Row kRows[] = {
    {"all-reduce apart", ncclSuccess, kAr, 0, 512},
    {"all-reduce in place", ncclSuccess, kAr, 0, 0},
    {"all-reduce side by side", ncclSuccess, kAr, 0, kShare},
    {"all-reduce half over itself", kArgument, kAr, 0, kShare / 2},
    {"all-reduce half over itself, behind", kArgument, kAr, kShare / 2, 0},
    {"reduce-scatter in place", ncclSuccess, kRs, 0, kRank* kShare},
    {"reduce-scatter at another rank's place", kArgument, kRs, 0, 2 * kShare},
    {"reduce-scatter at the start, which is rank 0's place", kArgument, kRs, 0, 0},
    {"reduce-scatter behind the last share", ncclSuccess, kRs, 0, kSize* kShare},
    {"all-gather in place", ncclSuccess, kAg, kRank* kShare, 0},
    {"all-gather at another rank's place", kArgument, kAg, 2 * kShare, 0},
    {"all-gather apart", ncclSuccess, kAg, 512, 0},
    {"broadcast: only the root's send buffer matters", ncclSuccess, kBc, kNull, 0},
    {"broadcast: the root's send buffer", kArgument, kBc, kNull, 0, kCount, ncclFloat32, ncclSum, kRank},
    {"broadcast: overlap on the root", kArgument, kBc, 0, 4, kCount, ncclFloat32, ncclSum, kRank},
    {"broadcast: overlap elsewhere is nobody's", ncclSuccess, kBc, 0, 4},
    {"reduce: only the root's receive buffer matters", ncclSuccess, kRd, 0, kNull},
    {"reduce: the root's receive buffer", kArgument, kRd, 0, kNull, kCount, ncclFloat32, ncclSum, kRank},
    {"no send buffer", kArgument, kAr, kNull, 0},
    {"no receive buffer", kArgument, kAr, 0, kNull},
    {"no buffers, nothing to do", ncclSuccess, kAr, kNull, kNull, 0},
    {"nothing to do, but a bad type", kArgument, kAr, kNull, kNull, 0, 12},
    {"type -1", kArgument, kAr, 0, 512, kCount, -1},
    {"type 12", kArgument, kAr, 0, 512, kCount, ncclNumTypes},
    {"fp8 e4m3", ncclSuccess, kAr, 0, 512, kCount, ncclFloat8e4m3},
    {"fp8 e5m2", ncclSuccess, kAg, 0, 512, kCount, ncclFloat8e5m2},
    {"fp8 e4m3 side by side: one byte each", ncclSuccess, kAr, 0, 4, kCount, ncclFloat8e4m3},
    {"operator -1", kArgument, kAr, 0, 512, kCount, ncclFloat32, -1},
    {"operator 5", kArgument, kRs, 0, 512, kCount, ncclFloat32, ncclNumOps},
    {"operator 5 of a reduce", kArgument, kRd, 0, 512, kCount, ncclFloat32, ncclNumOps},
    {"root -1", kArgument, kBc, 0, 512, kCount, ncclFloat32, ncclSum, -1},
    {"root = size", kArgument, kRd, 0, 512, kCount, ncclFloat32, ncclSum, kSize},
    {"root of an all-reduce means nothing", ncclSuccess, kAr, 0, 512, kCount, ncclFloat32, ncclSum, 99},
    {"gather apart", ncclSuccess, kGa, 0, 512, kCount, ncclFloat32, ncclSum, kRank},
    {"gather in place", ncclSuccess, kGa, kRank* kShare, 0, kCount, ncclFloat32, ncclSum, kRank},
    {"gather at another rank's place", kArgument, kGa, 0, 0, kCount, ncclFloat32, ncclSum, kRank},
    {"gather: only the root's receive buffer matters", ncclSuccess, kGa, 0, kNull},
    {"gather: the root's receive buffer", kArgument, kGa, 0, kNull, kCount, ncclFloat32, ncclSum, kRank},
    {"gather: root = size", kArgument, kGa, 0, 512, kCount, ncclFloat32, ncclSum, kSize},
    {"scatter apart", ncclSuccess, kSc, 512, 0, kCount, ncclFloat32, ncclSum, kRank},
    {"scatter in place", ncclSuccess, kSc, 0, kRank* kShare, kCount, ncclFloat32, ncclSum, kRank},
    {"scatter at another rank's place", kArgument, kSc, 0, 0, kCount, ncclFloat32, ncclSum, kRank},
    {"scatter: only the root's send buffer matters", ncclSuccess, kSc, kNull, 0},
    {"scatter: the root's send buffer", kArgument, kSc, kNull, 0, kCount, ncclFloat32, ncclSum, kRank},
    {"all-to-all apart", ncclSuccess, kA2, 0, kSize* kShare},
    {"all-to-all in place is not defined", kArgument, kA2, 0, 0},
    {"all-to-all: the buffers are of all ranks", kArgument, kA2, 0, kShare},
    {"all-to-all has no root", ncclSuccess, kA2, 0, 512, kCount, ncclFloat32, ncclSum, 99},
    {"send", ncclSuccess, kSe, 0, kNull},
    {"send to itself", ncclSuccess, kSe, 0, kNull, kCount, ncclFloat32, ncclSum, kRank},
    {"send of nothing", kArgument, kSe, kNull, kNull},
    {"send to nobody", kArgument, kSe, 0, kNull, kCount, ncclFloat32, ncclSum, kSize},
    {"send, bad type", kArgument, kSe, 0, kNull, kCount, 12},
    {"receive", ncclSuccess, kRe, kNull, 0},
    {"receive into nothing", kArgument, kRe, kNull, kNull},
    {"receive from nobody", kArgument, kRe, kNull, 0, kCount, ncclFloat32, ncclSum, -1},
    {"receive of no elements", ncclSuccess, kRe, kNull, kNull, 0},
    {"count beyond memory", kArgument, kAr, 0, 512, kHuge},
    {"count beyond memory times ranks", kArgument, kAg, 0, 512, kHuge / 8},
};
INSTANTIATE_TEST_SUITE_P(Table, RequestChecks, testing::ValuesIn(kRows));

TEST(ElementSize, OfEveryType) {
  constexpr std::size_t kSizes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  for (int type = 0; type < ncclNumTypes; ++type) {
    EXPECT_EQ(element_bytes(type), kSizes[type]) << type;
  }
}

TEST(Request, RefusalNamesCallValueAndRange) {
  const Request request{Collective::kBroadcast, arena, arena, 1, ncclInt8, ncclSum, 7};
  EXPECT_EQ(check(request, 0, kSize).message, "ncclBroadcast: root 7 is no rank; allowed: 0 to 3");
  const Request send{Collective::kSend, arena, nullptr, 1, ncclInt8, ncclSum, 7};
  EXPECT_EQ(check(send, 0, kSize).message, "ncclSend: peer 7 is no rank; allowed: 0 to 3");
}

}  // namespace
}  // namespace stepgate::hostnccl

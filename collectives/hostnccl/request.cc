#include "collectives/hostnccl/request.h"

#include <cstdint>
#include <limits>

namespace stepgate::hostnccl {
namespace {

bool has_root(Collective kind) noexcept {
  switch (kind) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAlltoAll: return false;
    default: return true;
  }
}

bool is_message(Collective kind) noexcept {
  return kind == Collective::kSend || kind == Collective::kRecv;
}

std::string label(const Request& request, const char* argument) {
  return std::string(name_of(request.kind)) + ": " + argument + " ";
}

Outcome check_type(const Request& request) {
  const int type = request.type;
  if (element_bytes(request.type) != 0) return success();
  return invalid_argument(label(request, "datatype") + std::to_string(type) +
                          " is unknown; allowed: 0 to 11");
}

Outcome check_operator(const Request& request) {
  const int op = request.op;
  if (!reduces(request.kind) || (op >= 0 && op < ncclNumOps)) return success();
  return invalid_argument(label(request, "op") + std::to_string(op) +
                          " is unknown; allowed: 0 to 4 (sum, prod, max, min, avg), or one that "
                          "ncclRedOpCreatePreMulSum has made");
}

Outcome check_root(const Request& request, int size) {
  if (!has_root(request.kind) || (request.root >= 0 && request.root < size)) return success();
  return invalid_argument(label(request, is_message(request.kind) ? "peer" : "root") +
                          std::to_string(request.root) + " is no rank; allowed: 0 to " +
                          std::to_string(size - 1));
}

Outcome check_length(const Request& request, int size) {
  const std::size_t room = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  const std::size_t unit = element_bytes(request.type) * static_cast<std::size_t>(size);
  if (request.count <= room / unit) return success();
  return invalid_argument(label(request, "count") + std::to_string(request.count) +
                          " is more than memory can hold; allowed: at most " + std::to_string(room / unit));
}

Outcome check_pointers(const Request& request, const Extent& extent) {
  if (extent.sends && request.send == nullptr) {
    return invalid_argument(label(request, "sendbuff") + "is NULL and count is not 0");
  }
  if (extent.receives && request.recv == nullptr) {
    return invalid_argument(label(request, "recvbuff") + "is NULL and count is not 0");
  }
  return success();
}

bool in_place(const Request& r, std::uintptr_t send, std::uintptr_t recv, std::size_t share, int rank) {
  const std::size_t offset = share * static_cast<std::size_t>(rank);
  switch (r.kind) {
    case Collective::kReduceScatter:
    case Collective::kScatter: return recv == send + offset;
    case Collective::kAllGather:
    case Collective::kGather: return send == recv + offset;
    case Collective::kAlltoAll: return false;  // NCCL defines none
    default: return send == recv;
  }
}

// NCCL leaves such an overlap undefined; here it would be a wrong result, so it is refused.
Outcome check_overlap(const Request& request, const Extent& extent, int rank) {
  if (!extent.sends || !extent.receives) return success();
  const auto send = reinterpret_cast<std::uintptr_t>(request.send);
  const auto recv = reinterpret_cast<std::uintptr_t>(request.recv);
  const bool apart = send + extent.send_bytes <= recv || recv + extent.recv_bytes <= send;
  if (apart || in_place(request, send, recv, extent.share, rank)) return success();
  return invalid_argument(label(request, "sendbuff") +
                          "and recvbuff overlap; allowed: apart, or in place as NCCL defines it");
}

}  // namespace

const char* name_of(Collective kind) noexcept {
  switch (kind) {
    case Collective::kAllReduce: return "ncclAllReduce";
    case Collective::kReduceScatter: return "ncclReduceScatter";
    case Collective::kAllGather: return "ncclAllGather";
    case Collective::kBroadcast: return "ncclBroadcast";
    case Collective::kReduce: return "ncclReduce";
    case Collective::kGather: return "ncclGather";
    case Collective::kScatter: return "ncclScatter";
    case Collective::kAlltoAll: return "ncclAlltoAll";
    case Collective::kSend: return "ncclSend";
    case Collective::kRecv: return "ncclRecv";
  }
  return "collective";
}

bool reduces(Collective kind) noexcept {
  return kind == Collective::kAllReduce || kind == Collective::kReduceScatter || kind == Collective::kReduce;
}

Extent extent_of(const Request& request, int rank, int size) noexcept {
  const std::size_t share = request.count * element_bytes(request.type);
  const std::size_t all = share * static_cast<std::size_t>(size);
  const bool root = request.root == rank;
  switch (request.kind) {
    case Collective::kAllReduce: return {true, true, share, share, share};
    case Collective::kReduceScatter: return {true, true, share, all, share};
    case Collective::kAllGather: return {true, true, share, share, all};
    case Collective::kBroadcast: return {root, true, share, share, share};
    case Collective::kReduce: return {true, root, share, share, share};
    case Collective::kGather: return {true, root, share, share, root ? all : 0};
    case Collective::kScatter: return {root, true, share, root ? all : 0, share};
    case Collective::kAlltoAll: return {true, true, share, all, all};
    case Collective::kSend: return {true, false, share, share, 0};
    case Collective::kRecv: return {false, true, share, 0, share};
  }
  return {};
}

Outcome check(const Request& request, int rank, int size) {
  if (Outcome o = check_type(request); !o.ok()) return o;
  if (Outcome o = check_operator(request); !o.ok()) return o;
  if (Outcome o = check_root(request, size); !o.ok()) return o;
  if (request.count == 0) return success();
  if (Outcome o = check_length(request, size); !o.ok()) return o;
  const Extent extent = extent_of(request, rank, size);
  if (Outcome o = check_pointers(request, extent); !o.ok()) return o;
  return check_overlap(request, extent, rank);
}

}  // namespace stepgate::hostnccl

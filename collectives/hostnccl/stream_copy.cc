#include "collectives/hostnccl/stream_copy.h"

#include <cstdint>
#include <memory>

namespace stepgate::hostnccl {

Outcome copy_on_stream(const Call& call) {
  const Cuda& cuda = *call.place.cuda;
  if (Outcome o = cuda.complete(); !o.ok()) return o;
  if (call.request.send == call.request.recv) return success();
  std::shared_ptr<Staging> staging;
  if (Outcome o = call.comm->staging(cuda, call.place.context, &staging); !o.ok()) return o;
  const ContextScope scope(cuda, staging->context());
  if (!scope.outcome().ok()) return scope.outcome();
  const auto to = static_cast<cuda::Address>(reinterpret_cast<std::uintptr_t>(call.request.recv));
  const auto from = static_cast<cuda::Address>(reinterpret_cast<std::uintptr_t>(call.request.send));
  const std::size_t bytes = call.request.count * element_bytes(call.request.type);
  return cuda.told(cuda.api.MemcpyDtoDAsync(to, from, bytes, call.stream), "cuMemcpyDtoDAsync");
}

}  // namespace stepgate::hostnccl

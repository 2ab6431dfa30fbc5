#include "collectives/hostnccl/memory_place.h"

#include <cstdint>

namespace stepgate::hostnccl {
namespace {

cuda::Address address(const void* pointer) {
  return static_cast<cuda::Address>(reinterpret_cast<std::uintptr_t>(pointer));
}

template <typename Value>
Outcome ask(const Cuda& cuda, int attribute, const void* pointer, Value* value) {
  return cuda.told(cuda.api.PointerGetAttribute(value, attribute, address(pointer)), "cuPointerGetAttribute");
}

Outcome place_of_pointer(const Cuda& cuda, const void* pointer, Place* place) {
  unsigned type = 0;
  const cuda::Result asked =
      cuda.api.PointerGetAttribute(&type, cuda::kAttributeMemoryType, address(pointer));
  if (has_no_device(asked)) return success();
  if (Outcome o = cuda.told(asked, "cuPointerGetAttribute"); !o.ok()) return o;
  if (type == cuda::kMemoryTypeHost) {
    unsigned managed = 0;
    if (Outcome o = ask(cuda, cuda::kAttributeIsManaged, pointer, &managed); !o.ok()) return o;
    if (managed == 0) return success();
  }
  place->cuda = &cuda;
  return ask(cuda, cuda::kAttributeContext, pointer, &place->context);
}

}  // namespace

Outcome place_of(const Cuda* cuda, const Request& request, int rank, int size, Place* place) {
  *place = {};
  if (cuda == nullptr || request.count == 0) return success();
  const Extent extent = extent_of(request, rank, size);
  Place send;
  Place recv;
  if (extent.sends) {
    if (Outcome o = place_of_pointer(*cuda, request.send, &send); !o.ok()) return o;
  }
  if (extent.receives) {
    if (Outcome o = place_of_pointer(*cuda, request.recv, &recv); !o.ok()) return o;
  }
  *place = extent.sends ? send : recv;
  if (!extent.sends || !extent.receives || send.device() == recv.device()) return success();
  return invalid_argument(std::string(name_of(request.kind)) + ": sendbuff is " +
                          (send.device() ? "device" : "host") + " memory and recvbuff is " +
                          (recv.device() ? "device" : "host") + " memory; allowed: both the same");
}

Outcome place_of_scalar(const Cuda* cuda, const Request& request, const Place& buffers, bool* on_device) {
  *on_device = false;
  if (cuda == nullptr || request.premul.pointer == nullptr || !request.premul.used()) return success();
  Place place;
  if (Outcome o = place_of_pointer(*cuda, request.premul.pointer, &place); !o.ok()) return o;
  *on_device = place.device();
  if (!place.device() || buffers.device()) return success();
  return invalid_argument(
      std::string(name_of(request.kind)) +
      ": the operator's scalar is device memory and the buffers are host memory; allowed: "
      "host memory, or ncclScalarHostImmediate");
}

}  // namespace stepgate::hostnccl

// Where a request's buffers are: on the host or on a device, by what the driver says of the pointers.
//
//   Place place;
//   Outcome o = place_of(cuda, request, rank, size, &place);
//
// Managed memory counts as a device's, pinned memory as the host's; only buffers that the rank uses are
// asked about. Pure questions: any thread, no order, no lock, nothing owned.
#pragma once

#include "collectives/hostnccl/cuda_driver.h"
#include "collectives/hostnccl/outcome.h"
#include "collectives/hostnccl/request.h"

namespace stepgate::hostnccl {

struct Place {
  const Cuda* cuda = nullptr;       // the driver of a device's memory; NULL: the host's
  cuda::Context context = nullptr;  // of the memory, where it is a device's

  bool device() const noexcept { return cuda != nullptr; }
};

// `cuda` NULL: the host. ncclInvalidArgument where one buffer is the host's and the other a device's,
// ncclUnhandledCudaError where the driver fails.
Outcome place_of(const Cuda* cuda, const Request& request, int rank, int size, Place* place);

// Whether the scalar of the request's operator, if it has one that is read when the collective runs, is a
// device's. ncclInvalidArgument where it is and the buffers are the host's: nothing there could read it in
// time.
Outcome place_of_scalar(const Cuda* cuda, const Request& request, const Place& buffers, bool* on_device);

}  // namespace stepgate::hostnccl

// The job's buckets in device memory: how gradients get there and are reduced on the job's stream, and how
// the new weights come back to a model that is host code.
//
// Thread: that of the device. Order: a step is stage(), enqueue_reduce(), the optimizer, enqueue_share(), the
// stream's end, read_weights(). enqueue_*() are collective and wait for nothing. Lock: none.
// Ownership: memory is the device's; the communicator, which works on the device's stream, is lent.
#pragma once

#include <cstdint>
#include <vector>

#include "integration/examples/charlm/communicator.h"
#include "integration/examples/charlm/device/device.h"
#include "integration/examples/charlm/gradients.h"

namespace stepgate::charlm {

class DeviceGradients final : public ReducedGradients {
 public:
  DeviceGradients(Device& device, const Options& options, const std::vector<Parameter>& parameters,
                  unsigned rank, unsigned world, Communicator& communicator);

  // From the flat gradients into pinned memory, in the type in which they travel.
  void stage(const float* gradients);
  void enqueue_reduce();
  // zero1: all-gather. Both: the copy to pinned memory.
  void enqueue_share();
  // Flat.
  void read_weights(float* weights) const;

  std::vector<GradientRange> ranges() const override;
  double factor() const override { return 1.0 / shares_; }
  GradType grad_type() const override { return type_; }
  // Waits: the one who asks this way has no gate.
  OwnCheck check_own() override;

  double shares() const { return shares_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  // The reduced piece of a bucket, and where its new weights go. Device memory.
  const void* reduced(std::size_t bucket) const;
  std::uint16_t* new_weights(std::size_t bucket) const;

 private:
  // One bucket. ddp has no shards: what is reduced is `full`, and the weights are written to new_full.
  struct Memory {
    void* staging;          // pinned
    void* full;             // what this rank puts in
    void* shard = nullptr;  // what comes out
    std::uint16_t* new_shard = nullptr;
    std::uint16_t* new_full;      // weights, fp16
    std::uint16_t* host_weights;  // pinned
  };
  Memory allocate(const Bucket& bucket);
  std::size_t shard_size(const Bucket& bucket) const { return bucket.padded / world_; }

  Device& device_;
  Communicator& communicator_;
  unsigned rank_;
  unsigned world_;
  bool sharded_;
  bool group_;
  GradType type_;
  ncclRedOp_t op_;
  double shares_;
  std::vector<Bucket> buckets_;
  std::vector<Piece> pieces_;
  std::vector<Memory> memory_;
};

}  // namespace stepgate::charlm

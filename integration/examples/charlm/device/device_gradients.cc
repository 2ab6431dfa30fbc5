#include "integration/examples/charlm/device/device_gradients.h"

namespace stepgate::charlm {

DeviceGradients::DeviceGradients(Device& device, const Options& options,
                                 const std::vector<Parameter>& parameters, unsigned rank, unsigned world,
                                 Communicator& communicator)
    : device_(device),
      communicator_(communicator),
      rank_(rank),
      world_(world),
      sharded_(options.zero1),
      group_(options.group),
      type_(options.grad_type),
      op_(options.reduce_op == ReduceOp::kSum ? ncclSum : ncclAvg),
      shares_(options.reduce_op == ReduceOp::kSum ? world : 1),
      buckets_(buckets_of(parameters, world)),
      pieces_(pieces_of(buckets_, options.zero1, rank, world)) {
  for (const Bucket& bucket : buckets_) memory_.push_back(allocate(bucket));
  device_.synchronize();  // the staging is written to next
}

DeviceGradients::Memory DeviceGradients::allocate(const Bucket& bucket) {
  const std::size_t bytes = bucket.padded * element_size(type_);
  Memory memory{};
  memory.staging = device_.pinned<char>(bytes);
  memory.full = device_.memory<char>(bytes);
  memory.new_full = device_.memory<std::uint16_t>(bucket.padded);
  memory.host_weights = device_.pinned<std::uint16_t>(bucket.padded);
  if (sharded_) {
    memory.shard = device_.memory<char>(shard_size(bucket) * element_size(type_));
    memory.new_shard = device_.memory<std::uint16_t>(shard_size(bucket));
  }
  // The padding is reduced and gathered as well: it has to be zeros from the beginning.
  pack(type_, std::vector<float>(bucket.padded).data(), bucket.padded, memory.staging);
  device_.upload(memory.full, memory.staging, bytes);
  if (sharded_) device_.upload(memory.new_shard, memory.staging, shard_size(bucket) * sizeof(std::uint16_t));
  return memory;
}

void DeviceGradients::stage(const float* gradients) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    pack(type_, gradients + buckets_[i].offset, buckets_[i].count, memory_[i].staging);
  }
}

void DeviceGradients::enqueue_reduce() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    device_.upload(memory_[i].full, memory_[i].staging, buckets_[i].count * element_size(type_));
  }
  const ncclDataType_t type = nccl_type(type_);
  if (group_) communicator_.group_start();
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Memory& memory = memory_[i];
    if (sharded_) {
      communicator_.reduce_scatter(memory.full, memory.shard, shard_size(buckets_[i]), type, op_);
    } else {
      communicator_.all_reduce(memory.full, buckets_[i].count, type, op_);
    }
  }
  if (group_) communicator_.group_end();
}

void DeviceGradients::enqueue_share() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Memory& memory = memory_[i];
    if (sharded_) {
      communicator_.all_gather(memory.new_shard, memory.new_full, shard_size(buckets_[i]), ncclFloat16);
    }
    device_.download(memory.host_weights, memory.new_full, buckets_[i].count * sizeof(std::uint16_t));
  }
}

void DeviceGradients::read_weights(float* weights) const {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    unpack(GradType::kFp16, memory_[i].host_weights, buckets_[i].count, weights + buckets_[i].offset);
  }
}

const void* DeviceGradients::reduced(std::size_t bucket) const {
  return sharded_ ? memory_[bucket].shard : memory_[bucket].full;
}

std::uint16_t* DeviceGradients::new_weights(std::size_t bucket) const {
  return sharded_ ? memory_[bucket].new_shard : memory_[bucket].new_full;
}

std::vector<GradientRange> DeviceGradients::ranges() const {
  std::vector<BucketMemory> memory;
  for (const Memory& m : memory_) memory.push_back({m.full, m.shard});
  return ranges_of(buckets_, pieces_, memory, type_, rank_);
}

OwnCheck DeviceGradients::check_own() {
  OwnCheck check;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const std::size_t count = pieces_[i].count;
    std::vector<char> elements(count * element_size(type_));
    device_.download(elements.data(), reduced(i), elements.size());
    device_.synchronize();
    std::vector<float> values(count);
    unpack(type_, elements.data(), count, values.data());
    check.add(values.data(), count);
  }
  return check;
}

}  // namespace stepgate::charlm

// A gate's step over buckets of one type, in the pieces that a job captures or times one by one.
//
//   GateStep step(session, ElementType::kBf16, {.buckets = 8, .elements = 1 << 20});
//   step.begin() && step.reduced_scans() && step.summarize() && step.finish() && step.optimizer();
//
// Thread: the program's one. Order: as above, all on the session's stream; nothing waits. Lock: none.
// Ownership: the gradients are its own, unless `memory` names others.
#pragma once

#include <memory>
#include <vector>

#include "tests/gpu/session.h"

namespace stepgate::gpu {

struct StepShape {
  std::size_t buckets = 1;
  std::uint64_t elements = 0;          // of each bucket
  std::size_t segments = 1;            // of each bucket
  std::vector<device::Segment> given;  // these segments instead, all in one bucket
};

class GateStep {
 public:
  GateStep(Session& session, ElementType type, const StepShape& shape);

  // Every function: true where it was enqueued.
  bool begin();
  bool local_scans();
  bool reduced_scans();
  bool all_scans();  // the reduced ones, in as few launches as the device can
  bool summarize();
  bool finish();
  bool optimizer();  // multiplies in place, where found_inf is 0

  unsigned char* gradients() const { return data_->as<>(); }
  std::size_t bytes() const { return data_->bytes(); }
  void put(const std::vector<unsigned char>& bytes) { data_->put(bytes.data(), bytes.size()); }
  std::vector<unsigned char> get() const { return data_->get(data_->bytes()); }
  // Both wait.
  GateBlock block() const { return block_.value<GateBlock>(); }
  std::uint64_t records() const { return *head_.as<std::uint64_t>(); }

 private:
  device::Scan scan_of(std::size_t bucket, bool local) const;
  bool done(device::Code code) const { return code == device::Code::kOk; }

  Session& session_;
  ElementType type_;
  std::vector<std::vector<device::Segment>> buckets_;
  std::unique_ptr<Buffer> data_;
  Buffer block_, slots_, fields_, per_segment_, ring_, head_, table_, stamps_, begun_, finished_;
};

}  // namespace stepgate::gpu

// A small training job on any Device: the same bytes and the same steps on host memory and on the
// stand-in's, so that what comes out can be compared bit for bit.
//
// Thread: the test's. Ownership: the Device outlives the job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/core/gate_block.h"
#include "collectives/core/records.h"
#include "collectives/device/device.h"

namespace stepgate::test {

// Memory of a device for as long as it lives.
class Held {
 public:
  Held(device::Device& device, std::size_t bytes, device::Memory kind);
  ~Held();
  Held(Held&& o) noexcept;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  Held& operator=(Held&&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  device::Device& device_;
  device::Memory kind_;
  void* memory_;
};

class HeldMark {
 public:
  explicit HeldMark(device::Device& device) : device_(device), mark_(device.create_mark()) {}
  ~HeldMark() { device_.release_mark(mark_); }
  HeldMark(const HeldMark&) = delete;
  HeldMark& operator=(const HeldMark&) = delete;
  device::Mark get() const { return mark_; }

 private:
  device::Device& device_;
  device::Mark mark_;
};

// The gradients of one declared range, as host bytes.
struct RangeData {
  ElementType type = ElementType::kFp32;
  std::vector<std::uint64_t> counts;  // per segment
  std::vector<unsigned char> bytes;   // segments one after another
};

enum class Spoil { kNothing, kInf, kNan, kVeto };

struct JobPlan {
  std::vector<RangeData> ranges;
  std::vector<Spoil> steps;
  std::uint32_t rank = 0;
  bool prepare = true;
  bool apply = true;
  bool in_place = false;  // local scans unscale what they read
};

JobPlan random_plan(std::uint64_t seed);

// Everything a step leaves behind.
struct StepTrace {
  GateBlock block;
  GateBlock begun, finished;         // as the host was shown them
  std::vector<RangeSlot> published;  // the table's turn of the step
  std::uint64_t stamp;
  std::vector<RangeSlot> slots;
  std::vector<GradStats> per_segment;
  std::vector<unsigned char> gradients;
  std::vector<unsigned char> widened;
  device::UpdateStats absorbed;
};

struct JobTrace {
  std::vector<StepTrace> steps;
  std::vector<StepRecord> records;
  std::uint64_t head = 0;
};

// Runs the plan; stops at the first failure, whose text is then in *error.
class DeviceJob {
 public:
  DeviceJob(device::Device& device, device::Stream s, const JobPlan& plan);

  bool usable() const { return usable_; }  // all memory is there
  bool start(std::string* error);
  // The job's own backward: gradients appear in device memory. Waits.
  bool fill(std::size_t range, Spoil spoil, std::string* error);
  // What the hot path of one step enqueues, nothing more.
  bool enqueue_step(Spoil spoil, std::string* error);
  // Waits, and copies out what the step left.
  bool collect(JobTrace* trace, std::string* error);
  static JobTrace run(device::Device& device, device::Stream s, const JobPlan& plan, std::string* error);

 private:
  struct Range {
    Held data;
    Held per_segment;
    Held widened;
    std::vector<device::Segment> segments;
  };
  bool ok(device::Code code, const char* what, std::string* error) const;
  device::Scan scan_of(std::size_t range, bool local) const;
  bool scans(std::string* error);
  bool decides(std::string* error);
  bool applies(std::string* error);
  bool observes(std::string* error);
  bool mirrors(std::string* error);

  device::Device& device_;
  device::Stream stream_;
  const JobPlan& plan_;
  Held block_, slots_, fields_, ring_, head_, mirror_, slots_mirror_, begun_, finished_, table_, stamps_,
      absorbed_, absorbed_mirror_;
  HeldMark mark_;
  std::vector<Range> ranges_;
  bool usable_ = true;
};

// Empty where both traces are the same bytes, else where they part.
std::string difference(const JobTrace& got, const JobTrace& want);

}  // namespace stepgate::test

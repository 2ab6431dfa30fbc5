// FaultyDevice: a HostDevice that fails chosen calls, as a driver might.
//
//   device.fail_at(7);                              the 8th call from now on, whichever it is
//   device.fail(FaultyDevice::kScan, 0, 2);         the next two scans
//
// A failed call does nothing: that is what the Device contract promises.
// Thread: one rank's, and the gate's own helper thread; counters are atomic. Lock: none.
// Ownership: the device must outlive the gate on it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "collectives/device/host/host_device.h"

namespace stepgate::test {

class FaultyDevice final : public device::Device {
 public:
  enum Call {
    kAllocate,
    kCopyIn,
    kCopyOut,
    kScan,
    kApply,
    kBeginStep,
    kSummarize,
    kDecide,
    kFinishStep,
    kVeto,
    kMarkApplied,
    kOrder,  // record and wait
    kSynchronize,
    kCalls
  };
  static constexpr std::array<const char*, kCalls> kNames = {
      "allocate", "copy_in",     "copy_out", "scan",         "apply", "begin_step", "summarize",
      "decide",   "finish_step", "veto",     "mark_applied", "order", "synchronize"};
  static constexpr std::int64_t kForEver = std::numeric_limits<std::int64_t>::max();

  FaultyDevice() { heal(); }

  // Fails `count` calls of one kind, after `after` more of them have worked.
  void fail(Call call, std::int64_t after, std::int64_t count = 1) {
    seen_[call] = 0;
    first_[call] = after;
    last_[call] = count == kForEver ? kForEver : after + count;
  }
  // Fails the n-th call of any kind from now on, and all after it where `for_ever`.
  void fail_at(std::int64_t n, bool for_ever = false) {
    total_ = 0;
    fail_total_ = n;
    fail_total_for_ever_ = for_ever;
  }
  void heal() {
    for (auto& f : first_) f = kForEver;
    fail_total_ = kForEver;
  }

  // No host device any more: it reads what begins at `only`, nothing else.
  void reach(const void* only) { only_ = only; }
  // Called in each scan, which may wait in it as in a full queue.
  void at_scan(std::function<void()> hook) { at_scan_ = std::move(hook); }

  std::int64_t calls() const { return total_; }
  std::int64_t failures() const { return failures_; }
  // Of the last failure.
  Call failed_call() const { return failed_call_; }

  const char* name() const noexcept override { return host_.name(); }
  bool immediate() const noexcept override { return only_ == nullptr; }
  void* allocate(std::size_t bytes, device::Memory kind) noexcept override {
    return fails(kAllocate) ? nullptr : host_.allocate(bytes, kind);
  }
  void release(void* memory, device::Memory kind) noexcept override { host_.release(memory, kind); }
  device::Code copy_in(device::Stream s, void* to, const void* from, std::size_t bytes) noexcept override {
    return fails(kCopyIn) ? device::Code::kDriver : host_.copy_in(s, to, from, bytes);
  }
  device::Code copy_out(device::Stream s, void* to, const void* from, std::size_t bytes) noexcept override {
    return fails(kCopyOut) ? device::Code::kDriver : host_.copy_out(s, to, from, bytes);
  }
  device::Code scan(device::Stream s, const device::Scan& job) noexcept override {
    if (at_scan_) at_scan_();
    return fails(kScan) ? device::Code::kDriver : host_.scan(s, job);
  }
  device::Code apply(device::Stream s, const device::Apply& job) noexcept override {
    return fails(kApply) ? device::Code::kDriver : host_.apply(s, job);
  }
  device::Code observe_update(device::Stream s, const device::ObserveUpdate& job) noexcept override {
    return host_.observe_update(s, job);
  }
  device::Code begin_step(device::Stream s, const device::BeginStep& job) noexcept override {
    return fails(kBeginStep) ? device::Code::kDriver : host_.begin_step(s, job);
  }
  device::Code summarize(device::Stream s, const device::Summarize& job) noexcept override {
    return fails(kSummarize) ? device::Code::kDriver : host_.summarize(s, job);
  }
  device::Code decide(device::Stream s, GateBlock* g, std::uint32_t set,
                      const double* fields) noexcept override {
    return fails(kDecide) ? device::Code::kDriver : host_.decide(s, g, set, fields);
  }
  device::Code finish_step(device::Stream s, const device::FinishStep& job) noexcept override {
    return fails(kFinishStep) ? device::Code::kDriver : host_.finish_step(s, job);
  }
  device::Code veto(device::Stream s, GateBlock* g) noexcept override {
    return fails(kVeto) ? device::Code::kDriver : host_.veto(s, g);
  }
  device::Code mark_applied(device::Stream s, GateBlock* g, std::uint32_t set) noexcept override {
    return fails(kMarkApplied) ? device::Code::kDriver : host_.mark_applied(s, g, set);
  }
  device::Code create_stream(device::Stream* s) noexcept override { return host_.create_stream(s); }
  void release_stream(device::Stream s) noexcept override { host_.release_stream(s); }
  device::Mark create_mark() noexcept override { return host_.create_mark(); }
  void release_mark(device::Mark mark) noexcept override { host_.release_mark(mark); }
  device::Code record(device::Stream s, device::Mark mark) noexcept override {
    return fails(kOrder) ? device::Code::kDriver : host_.record(s, mark);
  }
  device::Code wait(device::Stream s, device::Mark mark) noexcept override {
    return fails(kOrder) ? device::Code::kDriver : host_.wait(s, mark);
  }
  device::CaptureState capture_state(device::Stream s) noexcept override { return host_.capture_state(s); }
  bool reaches(const void* p) noexcept override { return only_ == nullptr ? host_.reaches(p) : p == only_; }
  device::Code synchronize(device::Stream s) noexcept override {
    return fails(kSynchronize) ? device::Code::kDriver : host_.synchronize(s);
  }
  const char* last_error() const noexcept override { return "the test makes this call fail"; }

 private:
  bool fails(Call call) noexcept {
    const std::int64_t n = seen_[call]++, total = total_++;
    const bool hit = (n >= first_[call] && n < last_[call]) ||
                     (fail_total_for_ever_ ? total >= fail_total_ : total == fail_total_);
    if (!hit) return false;
    ++failures_;
    failed_call_ = call;
    return true;
  }

  using Number = std::atomic<std::int64_t>;
  device::HostDevice host_;
  const void* only_ = nullptr;
  std::function<void()> at_scan_;
  std::array<Number, kCalls> seen_{};
  std::array<Number, kCalls> first_{}, last_{};  // a call fails from first_ up to last_
  Number total_{0}, fail_total_{kForEver}, failures_{0};
  std::atomic<bool> fail_total_for_ever_{false};
  std::atomic<Call> failed_call_{kCalls};
};

}  // namespace stepgate::test

// What HostDevice refuses, and in which words; the text of the calling thread's last failure.
//
// Thread: any; the text is each thread's own. No lock, nothing is allocated.
#pragma once

#include "collectives/device/device.h"

namespace stepgate::device::host {

// Never nullptr; valid until the thread's next failure.
const char* last_text() noexcept;

__attribute__((format(printf, 2, 3))) Code fail(Code code, const char* format, ...) noexcept;

Code check_scan(const Scan& job) noexcept;
Code check_apply(const Apply& job) noexcept;
Code check_update(const ObserveUpdate& job) noexcept;
Code check_block(const char* operation, const GateBlock* g, std::uint32_t set) noexcept;
Code check_slots(const char* operation, const RangeSlot* slots, std::uint32_t slot_count) noexcept;

}  // namespace stepgate::device::host

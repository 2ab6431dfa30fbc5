// What an operation's arguments must be, before anything is enqueued. Each returns kOk, or a code with
// the text of what is wrong and what is allowed.
//
// Thread: any. Allocates nothing. Ownership: none.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/device/device.h"

namespace stepgate::device::cuda {

Code check_scan(const Scan& job) noexcept;
Code check_apply(const Apply& job) noexcept;
Code check_block(const char* operation, const GateBlock* g, std::uint32_t set) noexcept;
Code check_slots(const char* operation, const RangeSlot* slots, std::uint32_t slot_count) noexcept;
Code check_fields(const char* operation, const double* fields) noexcept;
Code check_update(const ObserveUpdate& job) noexcept;
Code check_finish(const FinishStep& job) noexcept;
Code check_copy(const char* operation, const void* to, const void* from, std::size_t bytes) noexcept;

}  // namespace stepgate::device::cuda

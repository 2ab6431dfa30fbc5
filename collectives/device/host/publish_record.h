// One step's StepRecord: gathered from the gate's block, appended to the ring.
//
// Thread: the ring's single writer. Readers may copy at any time (records.h says how); every word is
// stored atomically, so a reader that copies word by word is no data race. Allocates nothing.
#pragma once

#include <cstdint>

#include "collectives/core/gate_block.h"
#include "collectives/core/records.h"
#include "collectives/device/device.h"

namespace stepgate::device::host {

// Everything but `sequence`.
StepRecord gather_record(const GateBlock& g, std::uint32_t set, const RangeSlot* slots,
                         std::uint32_t slot_count, const RecordExtras& extras) noexcept;

// Writes the record at the ring's head and moves the head with release order.
void append_record(RingView ring, const StepRecord& record) noexcept;

// The slots as they are after `step`, to the table's turn of that step.
void write_table(const TableView& table, std::uint64_t step, const RangeSlot* slots,
                 std::uint32_t slot_count) noexcept;

}  // namespace stepgate::device::host

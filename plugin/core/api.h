// The public C functions behind the shim's forwarding, one per stepgate_* name: they check handles,
// sizes and pointers, catch everything, and call the Gate.
//
// Thread: any, as stepgate.h says. Nothing is thrown.
#pragma once

#include "plugin/core/core_entry.h"
#include "plugin/core/process.h"

namespace stepgate::gate {

// The process whose gates the functions speak of; set once by the entry before the table is out.
void set_api_process(Process* process) noexcept;

// Fills every public function of the table.
void fill_api(CoreTable* table) noexcept;

}  // namespace stepgate::gate

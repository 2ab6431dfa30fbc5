// Wrappers whose last act is a call of NCCL, compiled to a jump: their hook cannot see who called.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <string>
#include <vector>

#include "plugin/survey/object.h"

namespace stepgate::survey {

// Functions of NCCL that code of this object jumps to instead of calling. Reads all of its code.
std::vector<std::string> tail_called(const Memory& memory, const ObjectSymbols& object);

}  // namespace stepgate::survey

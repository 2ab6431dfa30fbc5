// `stepgate check`: whether the driver, the devices, this build and NCCL fit each other, and whether the
// hooks catch what a process or a program calls.
//
// Thread: main. Order, lock: none. Ownership: nothing is kept.
#pragma once

#include <string_view>
#include <vector>

namespace stepgate::command {

// words: what follows "check". Returns 0 where all fits (a machine without a GPU fits too), 1 where
// something is wrong; throws UsageError.
int check_main(const std::vector<std::string_view>& words);

}  // namespace stepgate::command

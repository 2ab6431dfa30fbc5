// `stepgate state show FILE`: what a saved state holds.
//
// Thread: main. Order, lock: none. Ownership: nothing is kept; the file is only read.
#pragma once

#include <string_view>
#include <vector>

namespace stepgate::command {

// words: what follows "state". Returns 0, or 1 when the file cannot be read or is refused (standard error
// says why); throws UsageError.
int state_main(const std::vector<std::string_view>& words);

}  // namespace stepgate::command

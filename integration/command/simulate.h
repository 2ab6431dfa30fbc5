// `stepgate simulate`: the loss scale after each step of a pattern, by the update that a step runs.
//
// Thread: main. Order, lock: none. Ownership: nothing is kept.
#pragma once

#include <string_view>
#include <vector>

namespace stepgate::command {

// words: what follows "simulate". Prints one line; throws UsageError.
int simulate_main(const std::vector<std::string_view>& words);

}  // namespace stepgate::command

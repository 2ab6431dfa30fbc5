// `stepgate env`: what a shell, mpirun or srun has to hand to the ranks so that they load the plugin.
//
// Thread: main. Order, lock: none. Ownership: nothing is kept; nothing is set in this process.
#pragma once

#include <string_view>
#include <vector>

namespace stepgate::command {

// words: what follows "env". Returns 0; throws UsageError and std::runtime_error.
int env_main(const std::vector<std::string_view>& words);

}  // namespace stepgate::command

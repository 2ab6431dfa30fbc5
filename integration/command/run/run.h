// `stepgate run`: local ranks as processes, with the plugin preloaded into the ranks alone.
//
// Thread: main, before any other thread exists (it forks). Order: run_main() once.
// Ownership: the launcher owns its ranks; they end when it ends, however it ends.
#pragma once

#include <string_view>
#include <vector>

namespace stepgate::command {

// words: what follows "run". Returns the exit status of the first failing rank (128 + signal when a
// signal ended it), 0 when all succeeded, 1 when their output could not be written, 126 or 127 when the
// program cannot be started; throws
// UsageError and std::runtime_error.
int run_main(const std::vector<std::string_view>& words);

}  // namespace stepgate::command

// Standard output as something that can fail.
//
// Thread: main. Order: hold_standard_streams() before anything is opened. Lock: none.
// Ownership: the streams are the process's.
#pragma once

namespace stepgate::command {

// A stream that the caller has closed must not become the number of a file that is opened later:
// /dev/null takes its place, for standard output in a way that refuses every write.
void hold_standard_streams() noexcept;

// Prints and writes out what stdio holds back. Throws std::runtime_error when it cannot be written.
void print(const char* text);

}  // namespace stepgate::command

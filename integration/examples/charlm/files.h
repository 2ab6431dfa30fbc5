// Writes a file so that it appears under its name only when it is whole.
//
// Thread: any, one per path. Order, lock: none. Ownership: values; a failed write leaves nothing behind.
#pragma once

#include <string>
#include <string_view>

namespace stepgate::charlm {

// what: names the file in errors. Throws std::runtime_error with the path and the system's reason.
void write_whole_file(const std::string& path, std::string_view bytes, const char* what);

// Throws std::runtime_error with the path and the system's reason, of a folder as well.
std::string read_whole_file(const std::string& path, const char* what);

// What stdio holds back is written out. Throws std::runtime_error when it cannot be.
void flush_standard_output();

// A stream that the caller has closed must not become the number of a file that is opened later:
// /dev/null takes its place, for standard output in a way that refuses every write.
void hold_standard_streams() noexcept;

}  // namespace stepgate::charlm

// Whether a file has NCCL inside, whatever it exports; and which release an NCCL library is.
//
// Thread: any. Order, lock: none. Ownership: values. Files are only read.
#pragma once

#include <string>

namespace stepgate::command {

// A defined function ncclAllReduce or pncclAllReduce in its symbol table, or NVIDIA's version text.
bool has_nccl_inside(const std::string& path);
// "2.28.9" by NVIDIA's version text, or "".
std::string nccl_version_in(const std::string& path);

}  // namespace stepgate::command

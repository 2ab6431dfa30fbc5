// Whether a path that a user gave can be the library that is meant, before a rank finds out.
//
// Thread: any. Order, lock: none. Ownership: values. Nothing is loaded into this process.
#pragma once

#include <string>

namespace stepgate::command {

// --nccl PATH: a folder with libnccl.so.2, or that file (any version behind the 2). Returns the folder.
// Throws UsageError.
std::string folder_of_nccl(const std::string& path);

// --plugin PATH: a shared library of this machine that exports the plugin's interface. Returns it as
// an absolute path. Throws UsageError.
std::string checked_plugin(const std::string& path);

}  // namespace stepgate::command

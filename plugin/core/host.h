// What this process knows about where it runs.
//
// Thread: any. No state.
#pragma once

#include <string>

namespace stepgate::gate {

// The machine's own name, in a container the container's; "" where the system gives none.
std::string host_name();

// The folder of the file that this code was loaded from; "." where it cannot be told.
std::string own_folder();

}  // namespace stepgate::gate

// The tests of this build tree, as ctest lists them.
//
// Thread: any; functions without state.
#pragma once

#include <set>
#include <string>

namespace stepgate::repo {

// Whole names, parameters included. A program that was not built is listed as PROGRAM_NOT_BUILT.
std::set<std::string> ctest_names();

}  // namespace stepgate::repo

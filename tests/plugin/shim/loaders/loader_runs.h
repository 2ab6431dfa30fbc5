// Runs the programs of this folder with the plugin preloaded.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/integration/process.h"

namespace stepgate::test {

using Variables = std::map<std::string, std::string>;

// One of the libraries with use_nccl().
std::string loader_library(const std::string& name);
// Variables with the plugin preloaded and libnccl.so.2 from `folder` first.
Variables loader_variables(const std::string& folder, Variables more = {});
// The folder of hostnccl's libnccl.so.2, of the counting one.
std::string host_nccl_folder();
std::string counting_nccl_folder();
// The built program `loader_program` or `loader_linked`.
Outcome run_loader(const std::vector<std::string>& words, const Variables& variables);
Outcome run_python(const std::string& script, const Variables& variables);

// Whether the outcome's output has this whole line; fails the test otherwise.
void expect_line(const Outcome& o, const std::string& line);
// How often the text stands on standard error.
std::size_t times_said(const Outcome& o, const std::string& text);

}  // namespace stepgate::test

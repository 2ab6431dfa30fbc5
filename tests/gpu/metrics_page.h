// The plugin's metrics page, fetched over HTTP and read.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <string>

namespace stepgate::gpu {

// "http://127.0.0.1:19470/metrics"; "" when nothing answers.
std::string fetch_page(const std::string& url);
// The sum of all samples of a family; -1 when the page has none.
double sum_of_family(const std::string& page, const std::string& family);
int families_of(const std::string& page);

}  // namespace stepgate::gpu

// One HTTP GET, for looking at a metrics page on a machine that has no curl.
//
// Thread: any. Order, lock: none. Ownership: nothing stays open.
#pragma once

#include <string>

namespace stepgate::charlm_report {

// url: http://ADDRESS:PORT/PATH with a numeric IPv4 address. Returns the body. Throws
// std::runtime_error when there is none within ten seconds.
std::string fetch_page(const std::string& url);

// The lines of a page that hold one of the families, comments left out.
std::string excerpt(const std::string& page);
bool has_family(const std::string& page, const std::string& family);

}  // namespace stepgate::charlm_report

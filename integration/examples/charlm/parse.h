// Numbers from text, for the command line.
//
// Thread: any. Order, lock: none. Ownership: nothing is kept.
#pragma once

#include <cstdint>
#include <string_view>

namespace stepgate::charlm {

[[noreturn]] void refuse(std::string_view name, std::string_view text, std::string_view allowed);

// The whole text is a number within the limits, else std::invalid_argument naming all three.
std::uint64_t parse_whole(std::string_view name, std::string_view text, std::uint64_t low,
                          std::uint64_t high = UINT64_MAX);
double parse_real(std::string_view name, std::string_view text, double low, double high);

}  // namespace stepgate::charlm

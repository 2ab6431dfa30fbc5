// shortest_decimal(): the fewest decimal digits that read back as the same fp64.
//
//   shortest_decimal(0.1) == "0.1", shortest_decimal(65536) == "65536"
//
// Thread: any. Order, lock: none. Ownership: the caller owns the string. Host only, allocates;
// independent of the locale.
#pragma once

#include <string>

namespace stepgate {

// "inf", "-inf" and "nan" where x is not finite (JSON has no number for them: the caller quotes).
// Whole numbers below 2^53 are written out without an exponent.
std::string shortest_decimal(double x);

}  // namespace stepgate

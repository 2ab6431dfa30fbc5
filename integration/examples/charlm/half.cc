#include "integration/examples/charlm/half.h"

namespace stepgate::charlm {

std::uint16_t half_bits(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(round_to_half(x));
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude == 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    const float steps = std::bit_cast<float>(magnitude) * 0x1p24f;  // exact: a multiple of 2^-24
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(steps));
  }
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u) >> 13));
}

float half_value(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  std::uint32_t magnitude;
  if (exponent == 0) {
    magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f);
  } else if (exponent == 31) {
    magnitude = 0x7f800000u | (fraction << 13);
  } else {
    magnitude = ((exponent + 112) << 23) | (fraction << 13);
  }
  return std::bit_cast<float>(sign | magnitude);
}

std::uint16_t bfloat_bits(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float bfloat_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

void round_all_to_half(float* data, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) data[i] = round_to_half(data[i]);
}

}  // namespace stepgate::charlm

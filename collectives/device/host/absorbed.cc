#include "collectives/device/host/absorbed.h"

#include <cstring>

namespace stepgate::device::host {
namespace {

// Bits decide: an update is zero without its sign, and a value has changed where any bit did.
template <class Word>
UpdateStats count(const ObserveUpdate& job) {
  constexpr Word kMagnitude = static_cast<Word>(~Word{0}) >> 1;
  const auto word = [](const void* data, std::uint64_t i) {
    Word w;
    std::memcpy(&w, static_cast<const unsigned char*>(data) + i * sizeof w, sizeof w);
    return w;
  };
  UpdateStats stats;
  stats.elements = job.count;
  for (std::uint64_t i = 0; i < job.count; ++i) {
    if ((word(job.update, i) & kMagnitude) == 0) continue;
    ++stats.updates;
    stats.absorbed += word(job.before, i) == word(job.after, i);
  }
  return stats;
}

}  // namespace

UpdateStats count_absorbed(const ObserveUpdate& job) noexcept {
  switch (element_size(job.stored)) {
    case 2: return count<std::uint16_t>(job);
    case 8: return count<std::uint64_t>(job);
    default: return count<std::uint32_t>(job);
  }
}

}  // namespace stepgate::device::host

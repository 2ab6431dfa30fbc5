// The serialised state of a gate: everything that decides its future, as a versioned blob.
//
// Layout, little endian: 8 bytes magic, version, size of the whole, a Payload, then a 64-bit FNV-1a
// checksum of all before it. A truncated, foreign, damaged or newer blob is refused with a sentence
// and nothing is touched. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "collectives/core/scaler.h"

namespace stepgate::gate {

struct SavedState {
  ScalerParams params;
  ScalerState scaler;
  std::uint64_t step = 0;
  std::uint64_t applied = 0;
  std::uint64_t skipped = 0;
  std::uint64_t generation = 0;
  std::uint64_t last_decided = 0;
  std::uint64_t last_confirmed = 0;
};
static_assert(std::is_trivially_copyable_v<SavedState> && sizeof(SavedState) == 144,
              "SavedState is written as it stands: a change of layout needs a new kStateVersion");

inline constexpr std::uint32_t kStateVersion = 1;

std::size_t state_blob_bytes() noexcept;
// buffer: state_blob_bytes() bytes.
void write_state_blob(const SavedState& state, void* buffer) noexcept;
bool read_state_blob(const void* blob, std::size_t bytes, SavedState* out, std::string* error);

}  // namespace stepgate::gate

#include "plugin/core/state_blob.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace stepgate::gate {
namespace {

static_assert(std::endian::native == std::endian::little, "the blob is little endian as written");

constexpr char kMagic[8] = {'S', 'T', 'E', 'P', 'G', 'A', 'T', 'E'};

struct Blob {
  char magic[8];
  std::uint32_t version;
  std::uint32_t bytes;
  SavedState state;
  std::uint64_t checksum;
};
static_assert(sizeof(Blob) == 16 + sizeof(SavedState) + 8, "no padding may enter the blob");

std::uint64_t checksum_of(const Blob& b) {
  const auto* p = reinterpret_cast<const unsigned char*>(&b);
  std::uint64_t h = 14695981039346656037ull;
  for (std::size_t i = 0; i < offsetof(Blob, checksum); ++i) h = (h ^ p[i]) * 1099511628211ull;
  return h;
}

bool sane(const SavedState& s) {
  return static_cast<std::uint32_t>(s.params.rule) < kScalerRuleCount &&
         invalid_params(s.params) == nullptr && std::isfinite(s.scaler.scale) && s.scaler.scale >= 0;
}

}  // namespace

std::size_t state_blob_bytes() noexcept {
  return sizeof(Blob);
}

void write_state_blob(const SavedState& state, void* buffer) noexcept {
  Blob b{};
  std::memcpy(b.magic, kMagic, sizeof kMagic);
  b.version = kStateVersion;
  b.bytes = sizeof(Blob);
  b.state = state;
  b.checksum = checksum_of(b);
  std::memcpy(buffer, &b, sizeof b);
}

bool read_state_blob(const void* blob, std::size_t bytes, SavedState* out, std::string* error) {
  const auto refuse = [error](std::string why) {
    *error = "state blob refused: " + std::move(why);
    return false;
  };
  const std::string given = std::to_string(bytes) + " bytes";
  if (bytes < 16) return refuse("truncated, " + given + "; a blob has " + std::to_string(sizeof(Blob)));
  if (std::memcmp(blob, kMagic, sizeof kMagic) != 0)
    return refuse("foreign, it does not begin with STEPGATE");
  std::uint32_t version = 0;
  std::memcpy(&version, static_cast<const char*>(blob) + 8, sizeof version);
  if (version != kStateVersion) {
    return refuse("version " + std::to_string(version) + "; this plugin reads version " +
                  std::to_string(kStateVersion));
  }
  if (bytes != sizeof(Blob))
    return refuse("truncated or padded, " + given + "; a blob has " + std::to_string(sizeof(Blob)));
  Blob b{};
  std::memcpy(&b, blob, sizeof b);
  if (b.bytes != sizeof(Blob) || b.checksum != checksum_of(b))
    return refuse("damaged, the checksum does not match");
  if (!sane(b.state)) return refuse("its parameters or scale are out of range");
  *out = b.state;
  return true;
}

}  // namespace stepgate::gate

// What travels on the control channel: the unique id's layout and the frames between each rank and the
// coordinator that the id's owner runs. Plain data on one machine architecture (little-endian x86-64 or
// arm64); version it when a layout changes.
//
//   rank -> coordinator                      coordinator -> rank
//   hello    who I am, what I believe        refused  why no world comes about
//   blob     my share of an exchange         blobs    everybody's shares, by rank
//   report   I give up, and this is why      verdict  why the world is broken: same words for all
//   suspect  my endpoint to a rank failed    query    somebody timed out: whom do you wait for?
//   waits    answer to query
//   leave    I am done                       all_left everybody is done
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "collectives/ucx/error.h"
#include "collectives/ucx/transport.h"

namespace stepgate::transport {

using Key = std::array<unsigned char, 16>;

struct IdLayout {
  char magic[8];
  uint32_t version;
  uint32_t address;  // network order
  uint16_t port;
  uint16_t reserved;
  uint32_t process;  // of the owner
  Key key;
  char host[64];  // identity of the owner's host
  unsigned char padding[24];
};
static_assert(sizeof(IdLayout) == sizeof(sgt_unique_id), "the id is the layout: shrink padding, not the id");

inline constexpr char kMagic[8] = {'S', 'G', 'T', 'R', 'D', 'V', '0', '1'};
inline constexpr uint32_t kProtocolVersion = 3;  // 3: blobs carry the mailbox, which all-reduces use
inline constexpr int kLargestWorld = 32768;      // ranks travel in 16 bits of a message tag
inline constexpr size_t kLongestFrame = size_t{1} << 26;

enum FrameType : uint32_t {
  kHello = 1,
  kBlob,
  kReport,
  kSuspect,
  kWaits,
  kLeave,
  kRefused = 101,
  kBlobs,
  kVerdict,
  kQuery,
  kAllLeft,
};

struct Hello {
  Key key;
  uint32_t version;
  int32_t rank;
  int32_t size;
  double timeout_seconds;
};

template <typename T>
std::string pack(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
bool unpack(const std::string& body, T* value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (body.size() != sizeof *value) return false;
  std::memcpy(value, body.data(), sizeof *value);
  return true;
}

std::string pack_failure(const Failure& failure);
bool unpack_failure(const std::string& body, Failure* failure);
std::string pack_list(const std::vector<std::string>& items);
bool unpack_list(const std::string& body, std::vector<std::string>* items);

}  // namespace stepgate::transport

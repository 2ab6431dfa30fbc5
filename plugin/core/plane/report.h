// What a rank tells rank 0: plain structs, copied over the wire as they lie in memory (ranks of a job
// run one build; the frame's version says so where they do not).
//
// Thread: any; plain data. Ownership: whoever holds it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace stepgate::plane {

inline constexpr std::size_t kSkipKinds = 4;  // nan, inf, veto, norm: Reason - 1

// A rank's figures. They speak of the first gate of its process.
struct Figures {
  std::uint64_t reached = 0;    // step whose exchange this rank has come to; 0 none
  std::uint64_t last_step = 0;  // newest step decided
  std::uint64_t applied = 0;
  std::array<std::uint64_t, kSkipKinds> skipped{};
  std::uint64_t local_inf = 0;  // elements before the reduction, where attribution is on
  std::uint64_t local_nan = 0;
  std::uint64_t errors = 0;  // stepgate_plugin_errors_total of all stages
  double scale = 0;          // of the next backward; 0 while there is none
  std::uint32_t enforcing = 0;
  std::uint32_t released = 0;
};

// One parameter that held an inf or NaN before the reduction.
struct Offender {
  std::uint64_t step = 0;
  std::uint64_t inf = 0;
  std::uint64_t nan = 0;
  std::int32_t rank = 0;
  std::uint32_t has_nan = 0;
  char gate[64] = {};
  char range[64] = {};
  char parameter[128] = {};
};

inline constexpr std::size_t kFrameOffenders = 12;
inline constexpr std::uint32_t kFrameMagic = 0x53475031;  // "SGP1": the layout's version is in it

// One turn of a link, both ways. Rank 0's own frame only says that it is there.
struct Frame {
  std::uint32_t magic = kFrameMagic;
  std::int32_t rank = 0;
  std::uint32_t leaving = 0;  // the last frame of a rank that ends on purpose
  std::uint32_t reserved = 0;
  std::uint64_t turn = 0;
  std::uint64_t offenders_lost = 0;  // that this rank had no room to keep
  Figures figures;
  std::uint64_t offenders = 0;  // used entries of `offender`
  std::array<Offender, kFrameOffenders> offender;
};
static_assert(std::is_trivially_copyable_v<Frame>, "a frame travels as bytes");
static_assert(sizeof(Figures) == 96 && sizeof(Offender) == 288 && sizeof(Frame) == 3592,
              "the frame's layout changed: change kFrameMagic with it");

}  // namespace stepgate::plane

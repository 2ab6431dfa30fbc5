#include "plugin/core/activation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "collectives/core/step_summary.h"

namespace stepgate::gate {
namespace {

enum Field {
  kContributors = 0,
  kRank,
  kRankSquared,
  kKind,
  kUnwilling,
  kFirstItem,
  kRankHash = kFirstItem + 4 * kBallotItems,
  kAhead,
  kAheadSquared
};
static_assert(kAheadSquared + 1 == kActivationFields);

struct Item {
  const char* what;
  metrics::RefuseReason reason;
};
constexpr std::array<Item, kBallotItems> kItems = {{
    {"versions of StepGate", metrics::RefuseReason::kVersion},
    {"configurations (rule, its parameters, norms, world size)", metrics::RefuseReason::kConfig},
    {"lists of groups", metrics::RefuseReason::kGroups},
    {"scaler states (was a checkpoint loaded on some ranks only?)", metrics::RefuseReason::kState},
    {"generations", metrics::RefuseReason::kGeneration},
    {"last decided steps", metrics::RefuseReason::kState},
    {"last confirmed steps", metrics::RefuseReason::kState},
}};

std::array<std::uint32_t, kBallotItems> items_of(const Ballot& b) {
  return {b.version, b.configuration, b.groups, b.state, b.generation, b.decided, b.confirmed};
}

void write_half(std::uint32_t half, double* at) {
  at[0] = half;
  at[1] = static_cast<double>(half) * half;
}

// 16 bits, so that they sum exactly.
double hash_of_rank(std::uint32_t rank) {
  std::uint32_t h = (rank + 1) * 0x9e3779b1u;
  h = (h ^ (h >> 15)) * 0x85ebca77u;
  return (h ^ (h >> 13)) & 0xffffu;
}

double hashes_of_all(std::uint32_t world) {
  double sum = 0;
  for (std::uint32_t r = 0; r < world; ++r) sum += hash_of_rank(r);
  return sum;
}

// What each rank's ballot of this kind adds; no mixture of kinds sums to `world` times one of them.
double mark_of(BallotKind kind) {
  if (kind == BallotKind::kEnter) return 0;
  return kind == BallotKind::kLeave ? 1 : 0x1p24;
}

// Once each of 0 .. world-1, told by count, sum, sum of squares and sum of hashes: {0, 4, 5} and {1, 2, 6}
// have the first three in common.
bool every_rank_once(const double* s, std::uint32_t world) {
  const double n = world;
  return s[kContributors] == n && s[kRank] == n * (n - 1) / 2 &&
         s[kRankSquared] == (n - 1) * n * (2 * n - 1) / 6 && s[kRankHash] == hashes_of_all(world);
}

bool plausible(double x) {
  return x >= 0 && x < 0x1p62;
}

Verdict refusal(metrics::RefuseReason reason, std::string why) {
  return {false, reason, std::move(why)};
}

}  // namespace

void write_ballot(const Ballot& ballot, BallotKind kind, std::uint32_t rank, bool willing, double* f) {
  f[kContributors] = 1;
  f[kRank] = rank;
  f[kRankSquared] = static_cast<double>(rank) * rank;
  f[kKind] = mark_of(kind);
  f[kUnwilling] = !willing;
  double* at = f + kFirstItem;
  for (const std::uint32_t item : items_of(ballot)) {
    write_half(item & 0xffffu, at);
    write_half(item >> 16, at + 2);
    at += 4;
  }
  f[kRankHash] = hash_of_rank(rank);
  f[kAhead] = static_cast<double>(ballot.ahead);
  f[kAheadSquared] = f[kAhead] * f[kAhead];
}

// No value is further above the mean than sqrt((n - 1) * variance); where one rank alone is ahead of the
// others that is what it is.
std::uint64_t furthest_ahead(const double* s, std::uint32_t world) {
  const double n = world;
  const double spread = std::max(0.0, n * s[kAheadSquared] - s[kAhead] * s[kAhead]);
  return static_cast<std::uint64_t>(std::ceil((s[kAhead] + std::sqrt((n - 1) * spread)) / n));
}

Verdict count_ballots(const double* s, BallotKind kind, std::uint32_t world) {
  for (int i = 0; i < kActivationFields; ++i) {
    if (!plausible(s[i]))
      return refusal(metrics::RefuseReason::kOther, "the sums are not those of an activation");
  }
  if (!every_rank_once(s, world)) {
    return refusal(metrics::RefuseReason::kContributors,
                   std::to_string(static_cast<std::uint64_t>(s[kContributors])) + " ranks answered where " +
                       std::to_string(world) + " must, each once (is the plugin loaded on every rank?)");
  }
  if (s[kKind] != world * mark_of(kind)) {
    return refusal(metrics::RefuseReason::kOther, "some ranks enter enforce while others leave it");
  }
  if (s[kUnwilling] != 0 && kind == BallotKind::kConfirm) {
    return refusal(
        metrics::RefuseReason::kGroups,
        "others counted ballots that are not those of all ranks, each once, or failed (do the groups "
        "form a mesh on every rank?)");
  }
  if (s[kUnwilling] != 0) {
    return refusal(metrics::RefuseReason::kConfig, std::to_string(static_cast<std::uint64_t>(s[kUnwilling])) +
                                                       " of " + std::to_string(world) +
                                                       " ranks vote against it: STEPGATE_MODE is not enforce "
                                                       "there, or a setting was refused (their logs "
                                                       "tell)");
  }
  const double* at = s + kFirstItem;
  for (const Item& item : kItems) {
    if (!all_equal(world, at[0], at[1]) || !all_equal(world, at[2], at[3])) {
      return refusal(item.reason, std::string("ranks hold different ") + item.what);
    }
    at += 4;
  }
  return {true, metrics::RefuseReason::kOther, ""};
}

}  // namespace stepgate::gate

// The activation vote: what a rank says of itself before enforce begins, combined by SUM of fp64 like
// the StepSummary, and the verdict that every rank draws from the same sums.
//
// Pure functions over arrays of kActivationFields doubles; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "metrics/record_source.h"

namespace stepgate::gate {

// What must be equal on all ranks; each is compared as two 16-bit halves by sum and sum of squares.
struct Ballot {
  std::uint32_t version = 0;        // API and summary version
  std::uint32_t configuration = 0;  // digest of scaler parameters and policy
  std::uint32_t groups = 0;         // digest of the ordered list of groups
  std::uint32_t state = 0;          // digest of the scaler state
  std::uint32_t generation = 0;
  std::uint32_t decided = 0;    // last decided step
  std::uint32_t confirmed = 0;  // last confirmed step
  std::uint64_t ahead = 0;      // steps begun since the last decided one; need not be equal
};
inline constexpr int kBallotItems = 7;
// contributors, rank, rank^2, kind, unwilling, then four per item, a hash of the rank, ahead, ahead^2.
inline constexpr int kActivationFields = 5 + 4 * kBallotItems + 3;

// kConfirm: the second round of a vote over several groups in turn. A rank's own sums may be right where
// those of others are not; its second ballot tells by `willing` what it made of the first round.
enum class BallotKind { kEnter, kLeave, kConfirm };

// willing: this rank can and may enforce.
void write_ballot(const Ballot& ballot, BallotKind kind, std::uint32_t rank, bool willing, double* fields);

struct Verdict {
  bool accepted = false;
  metrics::RefuseReason reason = metrics::RefuseReason::kOther;
  std::string why;  // a sentence; empty when accepted
};
Verdict count_ballots(const double* sums, BallotKind kind, std::uint32_t world);

// At least every rank's `ahead`, and the same on all ranks: just that where they are equal.
std::uint64_t furthest_ahead(const double* sums, std::uint32_t world);

}  // namespace stepgate::gate

// N gates side by side, and an exchange between them that can lose, delay and damage.
//
// Thread: one. Order, lock: none. Ownership: the cluster owns its blocks.
#pragma once

#include "tests/collectives/core/support.h"

namespace stepgate::test {

// What happens to one rank in one step.
struct Mishap {
  std::vector<double> gradient = {1.0};  // its shard, as stored
  bool veto = false;
  bool fails_before = false;  // joins with the constant failure summary
  bool cut_off = false;       // its summary arrives, the sum never comes back
  bool absent = false;        // contributes nothing at all
};

class Cluster {
 public:
  Cluster(const ScalerParams& params, std::uint32_t world, std::mt19937_64& random) : random_(random) {
    for (std::uint32_t r = 0; r < world; ++r) ranks_.push_back(new_block(params, r, world));
  }

  // One step with one set on every rank. Each rank sums in an order of its own.
  void step(const std::vector<Mishap>& mishaps) {
    std::vector<Fields> sent;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Fields f = contribution(ranks_[r], mishaps[r]);
      if (!mishaps[r].absent) sent.push_back(f);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (mishaps[r].cut_off || mishaps[r].absent || sent.empty()) continue;
      decide_set(ranks_[r], 0, shuffled_sum(sent).data());
      update_scale(ranks_[r]);
    }
  }

  GateBlock& rank(std::size_t r) { return ranks_[r]; }
  std::vector<GateBlock>& ranks() { return ranks_; }

 private:
  static Fields contribution(GateBlock& g, const Mishap& m) {
    begin_step(g);
    g.veto = m.veto;
    g.attributing = 1;
    RangeSlot slot = slot_of(m.gradient);
    slot.local = slot.reduced;
    Fields f;
    summarize_set(g, 0, &slot, 1, f.data());
    if (m.fails_before) build_failure_summary(g.rank, f.data());
    return f;
  }

  Fields shuffled_sum(const std::vector<Fields>& sent) {
    std::vector<std::size_t> order = identity_order(sent.size());
    std::shuffle(order.begin(), order.end(), random_);
    return chance(random_, 0.5) ? sum_in_order(sent, order) : sum_as_tree(sent, order);
  }

  std::mt19937_64& random_;
  std::vector<GateBlock> ranks_;
};

}  // namespace stepgate::test

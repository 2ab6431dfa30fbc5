// tests/vectors/agreement_cases.json through whole gates: one per rank, agreeing over the built-in exchange.
// The cases know ranks by this interface alone, so that they run wherever a gate does.
//
//   run_agreement_cases([](const CaseWorld& world, const CaseBody& body) {
//     ... as many ranks as it says, each in a thread of its own: body(rank)
//   });
//
// A kind of case, or a key, that nobody reads fails.
// Thread: a CaseRank belongs to its rank's. Ownership: gradients live as long as their rank.
#pragma once

#include <functional>
#include <vector>

#include "tests/plugin/fake_world.h"

namespace stepgate::test {

struct CaseWorld {
  int ranks = 1;
  ScalerParams params;
  StepPolicy policy;
  std::uint64_t seed = 0;  // 0: a fresh one. Of the orders of summation, where there are several
};

class CaseRank {
 public:
  virtual ~CaseRank() = default;
  virtual int rank() const = 0;
  virtual gate::Gate& gate() = 0;
  virtual device::Device& device() = 0;
  virtual device::Stream stream() = 0;
  virtual stepgate_status activate() = 0;
  // end and wait.
  virtual Step end() = 0;
  // The job's all-reduce in place, as the hooks see it.
  virtual void all_reduce(ElementType type, void* data, std::size_t count) = 0;
  // Memory for a gradient, where the gate reads.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void store(void* to, const std::vector<unsigned char>& bytes) = 0;
  virtual std::vector<unsigned char> load(const void* from, std::size_t bytes) = 0;
};

using CaseBody = std::function<void(CaseRank&)>;
using RunCase = std::function<void(const CaseWorld&, const CaseBody&)>;

void run_agreement_cases(const RunCase& run);

}  // namespace stepgate::test

// Programs with libstepgate.so preloaded, for the tests of this folder.
//
// Thread: any. Ownership: a Job owns its processes and its folder.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/process.h"

namespace stepgate::test {

using Variables = std::map<std::string, std::string>;

// LD_PRELOAD for this build tree: a sanitizer's runtime comes first.
std::string preload();
// What a guest test sets: the preload, enforce, a page on any port; and what the host NCCL would set
// for UCX at its first use, so that the environment has no reason to change.
Variables guest_variables();
// The same by default: no mode is said, so the job is observed; what it sends is looked at as well.
Variables observed_variables();
// The same with the plane, which meets at a free port.
Variables plane_variables();
Variables with(Variables some, const Variables& more);

// The ranks of `guest_worker mode`, started together; on a plane they know who they are.
class GuestJob {
 public:
  GuestJob(const std::string& mode, int world, const Variables& variables = guest_variables());
  Process& rank(int i) { return *ranks_[static_cast<std::size_t>(i)]; }
  std::vector<Outcome> finish();

 private:
  TemporaryFolder folder_;
  std::vector<std::unique_ptr<Process>> ranks_;
};

std::vector<Outcome> run_guest(const std::string& mode, int world,
                               const Variables& variables = guest_variables());

}  // namespace stepgate::test

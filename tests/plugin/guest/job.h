// One rank of a job with everything up: a communicator over the transport, a gate, its page; the plane, where
// the environment asks for it. Under STEPGATE_MODE=enforce its gate decides, else it is observed and shows
// what it has. What guest_worker's modes share.
//
// Thread: the one that made it. Ownership: the communicator and the gate live until the process ends,
// as in a job that never cleans up. need() ends the program with a sentence.
#pragma once

#include <string>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"
#include "stepgate/client.h"
#include "tests/plugin/guest/gradient_memory.h"

namespace stepgate::test {

void need(bool condition, const std::string& what);

// An NCCL function by its name, as the dynamic linker gives it: the hook, under the preload. One that
// nobody has ends the program.
void* symbol(const char* name);
#define STEPGATE_SYMBOL(name) reinterpret_cast<decltype(&::name)>(symbol(#name))

// folder: shared by the ranks of one job, and fresh. world ranks, this one is `rank`.
struct Where {
  std::string folder;
  int rank = 0;
  int world = 1;
};

// The id number `which` of this job: rank 0 makes it and leaves it in the folder, the others wait.
ncclUniqueId shared_id(const Where& where, int which);

class Job {
 public:
  explicit Job(const Where& where) : Job(where, connect(where)) {}
  // The same in two parts.
  static ncclComm_t connect(const Where& where);
  Job(const Where& where, ncclComm_t comm);

  // One step: gradients with an inf, a NaN and subnormals; reduced, judged. Ends the program unless all
  // ranks skip it, or where it is observed, unless it is looked at.
  void step();
  // A scrape of this process's page; true when it is one and counts `steps`.
  bool scraped(int steps) const;
  // The same with any line.
  bool scraped_with(const std::string& line) const;
  // All ranks have come here, and where there is a plane, to rank 0's page.
  void meet();

  ncclComm_t comm() const { return comm_; }
  stepgate_gate* gate() const { return gate_; }
  bool observed() const { return observed_; }
  const Where& where() const { return where_; }
  // 4,096 elements: the declared range, and memory for anything.
  GradientMemory& gradient() { return gradient_; }
  std::vector<float>& scratch() { return scratch_; }

 private:
  void declare();
  void look_at();
  void decide();

  Where where_;
  const bool observed_;
  ncclComm_t comm_ = nullptr;
  stepgate_gate* gate_ = nullptr;
  GradientMemory gradient_;
  std::vector<float> scratch_;
};

}  // namespace stepgate::test

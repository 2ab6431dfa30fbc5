// Sampler: what this rank reports, read from its gates. The plane's second reader of a gate's ring
// beside the publisher: every function of RankSource may be called while the job runs and never waits
// for it.
//
// Thread: add and remove from any; sample from the plane's. Lock: one, held while a gate is read, so
// remove() returns when the gate will not be read again. Ownership: gates outlive their registration.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/core/records.h"
#include "plugin/core/plane/report.h"
#include "stepgate/stepgate.h"

namespace stepgate::plane {

class RankSource {
 public:
  virtual ~RankSource() = default;
  virtual const std::string& name() const = 0;
  // The step whose exchange this rank has come to.
  virtual std::uint64_t reached() const = 0;
  virtual bool enforcing() const = 0;
  // As RecordSource's.
  virtual std::size_t read_steps(std::uint64_t after, StepRecord* out, std::size_t capacity,
                                 std::uint64_t* lost) = 0;
  virtual std::uint64_t failures() const = 0;  // inside the plugin, all stages
  // Moves what was found since the last call to the end of *out; *lost grows by what was dropped.
  virtual void take_offenders(std::vector<stepgate_offender>* out, std::uint64_t* lost) = 0;
};

class Sampler {
 public:
  void add(RankSource* source);
  void remove(RankSource* source);
  // The figures of the first gate, and the new offenders of all.
  Figures sample(std::vector<Offender>* fresh, std::uint64_t* lost);

 private:
  struct Entry {
    RankSource* source;
    std::uint64_t sequence = 0;  // last record read
    Figures figures;
  };
  void read(Entry& entry);
  void count(const StepRecord& record, Figures& figures);
  static void take(RankSource& source, std::vector<Offender>* fresh, std::uint64_t* lost);

  std::mutex mutex_;
  std::vector<Entry> gates_;
  Figures last_;                        // of a gate that has ended
  std::vector<StepRecord> steps_{256};  // read buffer, kept
};

}  // namespace stepgate::plane

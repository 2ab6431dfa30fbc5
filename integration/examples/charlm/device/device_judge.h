// A judge whose decision is made on the stream, for kernels that obey it there.
//
//   judge.enqueue_begin();  ... reductions ...  judge.enqueue_end();
//   ... kernels that read judge.outputs() ...   judge.enqueue_copy();
//   ... the stream's end ...                    Verdict v = judge.end();
//
// begin() and end() only tell what is known by then: the scale of the next backward, what has been decided.
// Thread: that of the device. Order: as above, once a step. Lock: none. Ownership: as judge.h says.
#pragma once

#include "integration/examples/charlm/judge.h"
#include "stepgate/stepgate.h"

namespace stepgate::charlm {

class DeviceJudge : public Judge {
 public:
  virtual void enqueue_begin() = 0;
  virtual void enqueue_end() = 0;
  // The decision to host memory. The model of this example is host code: it needs the next scale for its
  // backward, as it needs the weights. A model on the GPU reads outputs()->scale where it is.
  virtual void enqueue_copy() = 0;
  // Device memory, at one address for the judge's life.
  virtual const stepgate_outputs_t* outputs() const = 0;
  // No enqueue function waits for the device or depends on the step: they may be captured.
  virtual bool capturable() const = 0;
};

}  // namespace stepgate::charlm

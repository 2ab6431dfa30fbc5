// What went wrong, as the inside of the transport carries it: a status, the rank to blame, a sentence.
// The control path throws Error; collectives in flight keep a Failure; table.cc turns both into sgt_error.
// Plain data, no thread, no lock; the caller owns it.
#pragma once

#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

#include "collectives/ucx/transport.h"

namespace stepgate::transport {

struct Failure {
  sgt_status status = SGT_OK;
  int culprit = -1;
  std::string message;
};

class Error : public std::exception {
 public:
  explicit Error(Failure failure) : failure_(std::move(failure)) {}
  Error(sgt_status status, std::string message, int culprit = -1)
      : failure_{status, culprit, std::move(message)} {}

  const Failure& failure() const { return failure_; }
  const char* what() const noexcept override { return failure_.message.c_str(); }

 private:
  Failure failure_;
};

// A connection that was refused: nobody listens there.
class Refused : public Error {
 public:
  using Error::Error;
};

// A rendezvous that closed the connection without a word: it is another one's.
class TurnedAway : public Error {
 public:
  using Error::Error;
};

inline void fill(sgt_error* out, const Failure& failure) {
  if (out == nullptr) return;
  out->status = failure.status;
  out->culprit = failure.culprit;
  std::snprintf(out->message, sizeof out->message, "%s", failure.message.c_str());
}

}  // namespace stepgate::transport

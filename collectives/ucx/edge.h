// What every function of the C edge does: refuse forked children, check arguments, catch every exception,
// translate. For table.cc and table_collectives.cc. Thread, order, lock and ownership: transport.h's.
#pragma once

#include <limits>
#include <memory>
#include <new>
#include <string>

#include "collectives/ucx/process_guard.h"
#include "collectives/ucx/world.h"

struct sgt_world {
  std::unique_ptr<stepgate::transport::World> world;
  stepgate::transport::Key key;  // of the id that it came about over
  uint64_t number;               // of the meeting at this rank's door, or 0
};

namespace stepgate::transport {

inline Operation* inside(sgt_op* op) {
  return reinterpret_cast<Operation*>(op);
}
inline sgt_op* outside(Operation* operation) {
  return reinterpret_cast<sgt_op*>(operation);
}

inline sgt_status answer(sgt_error* error, const Failure& failure) {
  fill(error, failure);
  return failure.status;
}

// Made once: a forked child allocates nothing for it.
inline const Failure& forked_failure() {
  static const Failure* const failure =
      new Failure{SGT_FORKED, -1, "the transport belongs to the process that forked this one"};
  return *failure;
}

// Runs `body` behind the firewall.
template <typename Body>
sgt_status guarded(sgt_error* error, Body body) noexcept {
  try {
    if (forked()) return answer(error, forked_failure());
    return body();
  } catch (const Error& e) {
    return answer(error, e.failure());
  } catch (const std::bad_alloc&) {
    return answer(error, {SGT_SYSTEM, -1, "out of memory"});
  } catch (const std::exception& e) {
    return answer(error, {SGT_SYSTEM, -1, e.what()});
  } catch (...) {
    return answer(error, {SGT_SYSTEM, -1, "an unknown exception"});
  }
}

[[noreturn]] inline void refuse(const std::string& message) {
  throw Error(SGT_INVALID, message);
}
// On the way of every collective only with a literal: a sentence that nobody reads costs more than the check.
inline void require(bool condition, const char* message) {
  if (!condition) refuse(message);
}
inline void require(bool condition, const std::string& message) {
  if (!condition) refuse(message);
}

inline std::string number(long long value) {
  return std::to_string(value);
}

template <typename Begin>
sgt_status start(sgt_world* world, sgt_op** op, sgt_error* error, Begin begin) noexcept {
  return guarded(error, [&] {
    require(world != nullptr && op != nullptr, "world or op is NULL");
    *op = outside(begin(*world->world));
    return SGT_OK;
  });
}

}  // namespace stepgate::transport

// Process: declaring and retiring ranges, where gates must not get into one another's way.
#include <utility>

#include "plugin/core/last_error.h"
#include "plugin/core/process.h"

namespace stepgate::gate {

stepgate_status Process::declare_range(Gate& gate, RangeSpec spec, std::uint32_t* id) {
  if (!spec.result) return gate.declare_range(std::move(spec), id);
  std::string why;
  const Claims::Ticket ticket = claims_.take({&gate, gate.name(), gate.unscales_in_hook()}, spec, &why);
  if (ticket == 0) return fail(STEPGATE_INVALID, "stepgate_declare_range: " + why);
  stepgate_status status = STEPGATE_FAILED;
  try {
    status = gate.declare_range(std::move(spec), id);
  } catch (...) {
    claims_.drop(ticket);
    throw;
  }
  if (status == STEPGATE_OK) {
    claims_.bind(ticket, *id);
  } else {
    claims_.drop(ticket);
  }
  return status;
}

stepgate_status Process::retire_range(Gate& gate, std::uint32_t id) {
  const std::vector<Claims::Ticket> held = claims_.held(&gate, id);
  const stepgate_status status = gate.retire_range(id);
  for (std::size_t i = 0; status == STEPGATE_OK && i < held.size(); ++i) claims_.drop(held[i]);
  return status;
}

stepgate_status Process::retire_all(Gate& gate) {
  const std::vector<Claims::Ticket> held = claims_.held(&gate);
  const stepgate_status status = gate.retire_all();
  for (std::size_t i = 0; status == STEPGATE_OK && i < held.size(); ++i) claims_.drop(held[i]);
  return status;
}

}  // namespace stepgate::gate

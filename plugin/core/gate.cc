#include "plugin/core/gate.h"

#include <cstring>
#include <utility>

#include "collectives/core/compute_type.h"
#include "plugin/core/last_error.h"

namespace stepgate::gate {

Gate::Gate(GateOptions options, device::Device& device, const ShimServices& services)
    : options_(std::move(options)),
      device_(device),
      services_(services),
      log_(options_.configuration.log, options_.rank),
      observations_(device, counters_, scales_loss(options_.params)) {
  published_params_ = options_.params;
  hits_.reserve(64);
  known_.reserve(16);
}

std::unique_ptr<Gate> Gate::create(GateOptions options, device::Device& device, const ShimServices& services,
                                   std::string* error) {
  std::unique_ptr<Gate> gate(new Gate(std::move(options), device, services));
  if (!gate->allocate(error)) return nullptr;
  return gate;
}

Gate::~Gate() {
  if (ballot_ != nullptr) ballot_->abandoned = true;
  // Memory is about to go that enqueued work may still write to.
  if (!device_.immediate() && control_ != nullptr && control_locked()) device_.synchronize(control_);
  for (const Used& u : used_) {
    if (u.mark != nullptr) device_.release_mark(u.mark);
  }
  if (begun_ != nullptr) device_.release_mark(begun_);
  if (done_ != nullptr) device_.release_mark(done_);
  if (ordered_ != nullptr) device_.release_mark(ordered_);
  device_.release_stream(control_);
}

bool Gate::make_order() {
  if (device_.create_stream(&control_) != device::Code::kOk) return false;
  for (Used& u : used_) {
    u.mark = device_.create_mark();
    if (u.mark == nullptr) return false;
  }
  for (device::Mark* mark : {&begun_, &done_, &ordered_}) {
    *mark = device_.create_mark();
    if (*mark == nullptr) return false;
  }
  return true;
}

// nullptr where memory cannot be had, or not be written.
std::shared_ptr<PendingBallot> Gate::make_ballot() {
  auto b = std::make_shared<PendingBallot>();
  double unwilling[kExchangeFields] = {};
  write_ballot(Ballot{}, BallotKind::kEnter, static_cast<std::uint32_t>(options_.rank), false, unwilling);
  const bool made =
      b->fields.allocate(device_, kExchangeFields, device::Memory::kDevice) &&
      b->unwilling.allocate(device_, kExchangeFields, device::Memory::kDevice) &&
      b->nothing.allocate(device_, kExchangeFields, device::Memory::kDevice) &&
      b->sums.allocate(device_, kExchangeFields, device::Memory::kMapped) &&
      device_.copy_in(control_, b->unwilling.get(), unwilling, sizeof unwilling) == device::Code::kOk &&
      device_.synchronize(control_) == device::Code::kOk;
  return made ? b : nullptr;
}

// Everything a step needs is here before the first one: the hot path never allocates.
bool Gate::allocate(std::string* error) {
  using device::Memory;
  const bool all = block_.allocate(device_, 1, Memory::kDevice) &&
                   slots_.allocate(device_, kMaxRanges + kAnonymousSlots, Memory::kDevice) &&
                   summary_.allocate(device_, std::size_t{kMaxSets} * kExchangeFields, Memory::kDevice) &&
                   failure_.allocate(device_, kExchangeFields, Memory::kDevice) &&
                   nothing_.allocate(device_, kExchangeFields, Memory::kDevice) &&
                   ring_.allocate(device_, kRingRecords, Memory::kMapped) &&
                   ring_head_.allocate(device_, 1, Memory::kMapped) &&
                   mirror_.allocate(device_, 1, Memory::kMapped) &&
                   table_[0].allocate(device_, kMaxRanges + kAnonymousSlots, Memory::kMapped) &&
                   table_[1].allocate(device_, kMaxRanges + kAnonymousSlots, Memory::kMapped) &&
                   table_stamps_.allocate(device_, 2, Memory::kMapped) && make_order();
  ballot_ = all ? make_ballot() : nullptr;
  if (ballot_ == nullptr) {
    *error = std::string("gate '") + options_.name + "': " + device_.last_error();
    return false;
  }
  build_failure_summary(static_cast<std::uint32_t>(options_.rank), failure_fields_.data());
  GateBlock fresh;
  fresh.params = options_.params;
  fresh.policy = options_.policy;
  fresh.scaler = initial_state(options_.params);
  fresh.rank = static_cast<std::uint32_t>(options_.rank);
  fresh.latched_scale = fresh.scaler.scale;
  for (SetBlock& s : fresh.sets) s.outputs.scale = static_cast<float>(fresh.scaler.scale);
  const bool copied = device_.copy_in(control_, failure_.get(), failure_fields_.data(),
                                      sizeof failure_fields_) == device::Code::kOk &&
                      device_.copy_in(control_, block_.get(), &fresh, sizeof fresh) == device::Code::kOk &&
                      device_.synchronize(control_) == device::Code::kOk;
  if (!copied) {
    *error = std::string("gate '") + options_.name + "': " + device_.last_error();
    return false;
  }
  std::memcpy(mirror_.get(), &fresh, sizeof fresh);
  return true;
}

}  // namespace stepgate::gate

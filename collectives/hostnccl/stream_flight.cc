#include "collectives/hostnccl/stream_flight.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

namespace stepgate::hostnccl {
namespace {

// NaN in every floating type, -1 in the signed ones: nobody takes it for a result.
constexpr int kNoResult = 0xff;

cuda::Address address(const void* pointer) {
  return static_cast<cuda::Address>(reinterpret_cast<std::uintptr_t>(pointer));
}

// Where pinned memory of one request keeps what: the buffers, in place as NCCL defines it where it does
// (results do not depend on the place, and one buffer serves both ways), and behind them a scalar that lies
// on the device.
struct Layout {
  std::size_t send = 0;
  std::size_t recv = 0;
  std::size_t scalar = 0;
  std::size_t bytes = 0;
};

Layout layout_of(const Call& call, const Extent& extent) {
  const std::size_t mine = extent.share * static_cast<std::size_t>(call.comm->rank());
  Layout layout;
  layout.bytes = std::max(extent.send_bytes, extent.recv_bytes);
  if (call.request.kind == Collective::kAlltoAll) {
    layout.recv = extent.send_bytes;
    layout.bytes = extent.send_bytes + extent.recv_bytes;
  } else {
    if (extent.send_bytes < extent.recv_bytes && extent.sends) layout.send = mine;
    if (extent.recv_bytes < extent.send_bytes && extent.receives) layout.recv = mine;
  }
  constexpr std::size_t kScalar = sizeof(PreMul::value);
  layout.scalar = (layout.bytes + kScalar - 1) / kScalar * kScalar;
  if (call.scalar_on_device) layout.bytes = layout.scalar + kScalar;
  return layout;
}

Request in_buffer(const Call& call, const Layout& layout, std::byte* buffer) {
  Request request = call.request;
  request.send = buffer + layout.send;
  request.recv = buffer + layout.recv;
  if (call.scalar_on_device) request.premul.pointer = buffer + layout.scalar;
  return request;
}

}  // namespace

Outcome StreamFlight::enqueue(const std::vector<Call>& calls) {
  const Cuda& cuda = *calls.front().place.cuda;
  if (Outcome o = cuda.complete(); !o.ok()) return o;
  const std::shared_ptr<StreamFlight> flight(new StreamFlight(cuda));
  Outcome outcome = flight->prepare(calls);
  if (outcome.ok()) {
    outcome = flight->launch(flight);
  } else {
    flight->give_buffers_back();
  }
  flight->destroy_events();
  return outcome;
}

Outcome StreamFlight::prepare(const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    if (Outcome o = add(call); !o.ok()) return o;
  }
  for (const Piece& piece : pieces_) {
    staged_calls_.push_back({piece.call.comm, piece.staged});
  }
  if (Outcome o = read_capture(); !o.ok()) return o;
  return lanes_.size() > 1 ? make_events() : success();
}

Outcome StreamFlight::add(const Call& call) {
  std::shared_ptr<Staging> staging;
  if (Outcome o = call.comm->staging(cuda_, call.place.context, &staging); !o.ok()) return o;
  Piece piece{call,          {},     extent_of(call.request, call.comm->rank(), call.comm->size()), 0,
              staging.get(), nullptr};
  const Layout layout = layout_of(call, piece.extent);
  if (Outcome o = staging->take(layout.bytes, &piece.buffer); !o.ok()) return o;
  piece.staged = in_buffer(call, layout, piece.buffer);
  piece.lane = lane_of(staging->context(), call.stream);
  pieces_.push_back(std::move(piece));
  const auto place =
      std::lower_bound(stagings_.begin(), stagings_.end(), staging,
                       [](const auto& a, const auto& b) { return std::less<>()(a.get(), b.get()); });
  if (place == stagings_.end() || *place != staging) stagings_.insert(place, staging);
  return success();
}

void StreamFlight::give_buffers_back() noexcept {
  for (const Piece& piece : pieces_) piece.staging->give_back(piece.buffer);
}

std::size_t StreamFlight::lane_of(cuda::Context context, cuda::Stream stream) {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
    return lane.stream == stream && lane.context == context;
  });
  if (found != lanes_.end()) return static_cast<std::size_t>(found - lanes_.begin());
  lanes_.push_back({context, stream, nullptr, false});
  return lanes_.size() - 1;
}

template <typename Function>
Outcome StreamFlight::on(const Lane& lane, const char* name, Function function) const {
  const ContextScope scope(cuda_, lane.context);
  if (!scope.outcome().ok()) return scope.outcome();
  return cuda_.told(function(), name);
}

// As in NCCL, a group is recorded as a whole or not at all.
Outcome StreamFlight::read_capture() {
  std::size_t capturing = 0;
  for (const Lane& lane : lanes_) {
    int status = cuda::kCaptureNone;
    Outcome o =
        on(lane, "cuStreamIsCapturing", [&] { return cuda_.api.StreamIsCapturing(lane.stream, &status); });
    if (!o.ok()) return o;
    if (status != cuda::kCaptureNone && status != cuda::kCaptureActive) {
      return {ncclUnhandledCudaError, "the stream's capture has been invalidated"};
    }
    capturing += status == cuda::kCaptureActive ? 1 : 0;
  }
  recorded_ = capturing != 0;
  if (capturing == 0 || capturing == lanes_.size()) return success();
  return invalid_usage("some streams of the group capture and others do not; allowed: all or none");
}

Outcome StreamFlight::make_events() {
  for (Lane& lane : lanes_) {
    Outcome o = on(lane, "cuEventCreate",
                   [&] { return cuda_.api.EventCreate(&lane.event, cuda::kEventDisableTiming); });
    if (!o.ok()) return o;
  }
  return success();
}

// An event that is still waited for goes when it has happened.
void StreamFlight::destroy_events() {
  for (Lane& lane : lanes_) {
    if (lane.event != nullptr) (void)cuda_.api.EventDestroy(std::exchange(lane.event, nullptr));
  }
}

Outcome StreamFlight::launch(std::shared_ptr<StreamFlight> self) {
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const auto& staging : stagings_) locks.emplace_back(staging->order());
  if (recorded_) {
    for (const auto& staging : stagings_) staging->keep(self);
  } else {
    self_ = std::move(self);
    left_ = 1;
    begin();
  }
  Outcome outcome = enqueue_all();
  if (!outcome.ok()) give_up(outcome);
  if (!recorded_) one_less();
  return outcome;
}

Outcome StreamFlight::enqueue_all() {
  if (!recorded_) {
    for (const auto& staging : stagings_) {
      const Lane& first = lanes_.front();
      const ContextScope scope(cuda_, first.context);
      if (!scope.outcome().ok()) return scope.outcome();
      if (Outcome o = staging->follow_last(first.stream); !o.ok()) return o;
    }
  }
  if (Outcome o = copy_out(); !o.ok()) return o;
  if (Outcome o = join_lanes(); !o.ok()) return o;
  if (Outcome o = host_function(lanes_.front(),
                                [](void* flight) { static_cast<StreamFlight*>(flight)->fly_staged(); });
      !o.ok()) {
    return o;
  }
  boarded_ = true;
  if (Outcome o = fork_lanes(); !o.ok()) return o;
  if (Outcome o = copy_in(); !o.ok()) return o;
  // Every stream of a group is behind all of it: a buffer of one may be used on another.
  if (Outcome o = join_lanes(); !o.ok()) return o;
  if (Outcome o = fork_lanes(); !o.ok()) return o;
  if (Outcome o = take_last_places(); !o.ok()) return o;
  return enqueue_ends();
}

Outcome StreamFlight::copy_out() {
  for (const Piece& piece : pieces_) {
    const Request& asked = piece.call.request;
    if (piece.extent.sends) {
      if (Outcome o = fetch(piece, piece.staged.send, asked.send, piece.extent.send_bytes); !o.ok()) return o;
    }
    if (piece.call.scalar_on_device) {
      Outcome o = fetch(piece, piece.staged.premul.pointer, asked.premul.pointer, element_bytes(asked.type));
      if (!o.ok()) return o;
    }
  }
  return success();
}

// `to` lies in our own pinned memory.
Outcome StreamFlight::fetch(const Piece& piece, const void* to, const void* from, std::size_t bytes) const {
  const Lane& lane = lanes_[piece.lane];
  return on(lane, "cuMemcpyDtoHAsync", [&] {
    return cuda_.api.MemcpyDtoHAsync(const_cast<void*>(to), address(from), bytes, lane.stream);
  });
}

Outcome StreamFlight::copy_in() {
  for (const Piece& piece : pieces_) {
    const Request& asked = piece.call.request;
    // The root of a broadcast in place has what it sent.
    const bool there = asked.kind == Collective::kBroadcast && piece.extent.sends && asked.send == asked.recv;
    if (!piece.extent.receives || there) continue;
    const Lane& lane = lanes_[piece.lane];
    Outcome o = on(lane, "cuMemcpyHtoDAsync", [&] {
      return cuda_.api.MemcpyHtoDAsync(address(asked.recv), piece.staged.recv, piece.extent.recv_bytes,
                                       lane.stream);
    });
    if (!o.ok()) return o;
  }
  return success();
}

// The first lane behind all others.
Outcome StreamFlight::join_lanes() {
  const Lane& first = lanes_.front();
  for (std::size_t i = 1; i < lanes_.size(); ++i) {
    const Lane& lane = lanes_[i];
    Outcome o = on(lane, "cuEventRecord", [&] { return cuda_.api.EventRecord(lane.event, lane.stream); });
    if (!o.ok()) return o;
    o = on(first, "cuStreamWaitEvent",
           [&] { return cuda_.api.StreamWaitEvent(first.stream, lane.event, 0); });
    if (!o.ok()) return o;
  }
  return success();
}

// All others behind the first lane.
Outcome StreamFlight::fork_lanes() {
  if (lanes_.size() == 1) return success();
  const Lane& first = lanes_.front();
  Outcome o = on(first, "cuEventRecord", [&] { return cuda_.api.EventRecord(first.event, first.stream); });
  for (std::size_t i = 1; o.ok() && i < lanes_.size(); ++i) {
    const Lane& lane = lanes_[i];
    o = on(lane, "cuStreamWaitEvent", [&] { return cuda_.api.StreamWaitEvent(lane.stream, first.event, 0); });
  }
  return o;
}

// A stream outside a capture cannot wait for what a capture only records: there, streams are ordered by
// the program alone.
Outcome StreamFlight::take_last_places() {
  if (recorded_) return success();
  for (const auto& staging : stagings_) {
    const auto own = std::find_if(pieces_.begin(), pieces_.end(),
                                  [&](const Piece& piece) { return piece.staging == staging.get(); });
    const ContextScope scope(cuda_, staging->context());
    if (!scope.outcome().ok()) return scope.outcome();
    if (Outcome o = staging->be_last(lanes_[own->lane].stream); !o.ok()) return o;
  }
  return success();
}

Outcome StreamFlight::enqueue_ends() {
  for (Lane& lane : lanes_) {
    if (lane.ends) continue;
    Outcome o = host_function(lane, [](void* flight) { static_cast<StreamFlight*>(flight)->one_less(); });
    if (!o.ok()) return o;
    lane.ends = true;
  }
  return success();
}

Outcome StreamFlight::host_function(const Lane& lane, cuda::HostFunction function) {
  ++left_;
  Outcome o =
      on(lane, "cuLaunchHostFunc", [&] { return cuda_.api.LaunchHostFunc(lane.stream, function, this); });
  if (!o.ok()) --left_;
  return o;
}

// The other ranks must not wait for what will not come, nor this rank use buffers that copies still use.
void StreamFlight::give_up(const Outcome& why) {
  if (recorded_) return;
  if (boarded_) {
    for (const Piece& piece : pieces_) piece.call.comm->break_with(why);
  }
  stranded_ = !enqueue_ends().ok();
}

void StreamFlight::fly_staged() noexcept {
  if (recorded_) {
    left_ = lanes_.size() + 1;
    begin();
  }
  std::vector<Outcome> outcomes;
  Outcome failure{ncclInternalError, "the host function failed"};
  try {
    outcomes = fly_each(staged_calls_);
  } catch (const std::exception& error) {
    failure.message = error.what();
  }
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Outcome& outcome = i < outcomes.size() ? outcomes[i] : failure;
    if (outcome.ok()) continue;
    pieces_[i].call.comm->break_with(outcome);
    if (pieces_[i].extent.receives)
      std::memset(pieces_[i].staged.recv, kNoResult, pieces_[i].extent.recv_bytes);
  }
  one_less();
}

void StreamFlight::begin() noexcept {
  for (const auto& staging : stagings_) staging->begin_flight();
}

void StreamFlight::one_less() noexcept {
  if (left_.fetch_sub(1) == 1) end();
}

void StreamFlight::end() noexcept {
  if (!recorded_ && !stranded_) give_buffers_back();
  const std::shared_ptr<StreamFlight> self = std::move(self_);  // last: this object may go with it
  const std::vector<std::shared_ptr<Staging>> stagings = stagings_;
  for (const auto& staging : stagings) staging->end_flight();
}

}  // namespace stepgate::hostnccl

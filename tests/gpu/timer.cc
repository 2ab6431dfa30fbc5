#include "tests/gpu/timer.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>

namespace stepgate::gpu {

using device::cuda::Result;

namespace {

constexpr int kWarmUps = 3;

double now_microseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 != 0 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Timer::Timer(Session& session, std::size_t flush_bytes, int repetitions)
    : session_(session), flushed_(session, flush_bytes), repetitions_(repetitions) {
  const auto& api = session.driver().api();
  if (session.driver().call(api.EventCreate, &start_, 0u) != Result::kSuccess ||
      session.driver().call(api.EventCreate, &stop_, 0u) != Result::kSuccess) {
    give_up("no events to measure with");
  }
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  void* found = library != nullptr ? dlsym(library, "cuEventElapsedTime") : nullptr;
  elapsed_ = reinterpret_cast<decltype(elapsed_)>(found);
}

Timer::~Timer() {
  const auto& api = session_.driver().api();
  session_.driver().call(api.EventDestroy, start_);
  session_.driver().call(api.EventDestroy, stop_);
}

// Long enough on the device for the host to enqueue what follows.
void Timer::flush() {
  const auto address =
      static_cast<device::cuda::DevicePtr>(reinterpret_cast<std::uintptr_t>(flushed_.as<>()));
  session_.driver().call(session_.driver().api().MemsetD8Async, address, static_cast<unsigned char>(1),
                         flushed_.bytes(), session_.handle());
}

double Timer::once(const std::function<bool()>& before, const std::function<bool()>& measured) {
  const auto& api = session_.driver().api();
  flush();
  if (!before()) give_up(session_.device().last_error());
  if (elapsed_ == nullptr) session_.wait();
  const double begin = now_microseconds();
  session_.driver().call(api.EventRecord, start_, session_.handle());
  if (!measured()) give_up(session_.device().last_error());
  session_.driver().call(api.EventRecord, stop_, session_.handle());
  session_.wait();
  if (elapsed_ == nullptr) return now_microseconds() - begin;
  float milliseconds = 0;
  if (elapsed_(&milliseconds, start_, stop_) != Result::kSuccess) give_up("cuEventElapsedTime failed");
  return 1000.0 * static_cast<double>(milliseconds);
}

std::vector<double> Timer::medians(const std::vector<Variant>& variants) {
  std::vector<std::vector<double>> times(variants.size());
  for (int i = -kWarmUps; i < repetitions_; ++i) {
    for (std::size_t v = 0; v < variants.size(); ++v) {
      const double t = once([] { return true; }, variants[v].enqueue);
      if (i >= 0) times[v].push_back(t);
    }
  }
  std::vector<double> result;
  for (auto& t : times) result.push_back(median(std::move(t)));
  return result;
}

double Timer::median_behind(const std::function<bool()>& before, const std::function<bool()>& measured) {
  std::vector<double> times;
  for (int i = -kWarmUps; i < repetitions_; ++i) {
    const double t = once(before, measured);
    if (i >= 0) times.push_back(t);
  }
  return median(std::move(times));
}

}  // namespace stepgate::gpu

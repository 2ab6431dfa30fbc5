// Multiplications: apply in place, widened, the scan in place, and the count of absorbed updates.
#include <bit>
#include <cmath>
#include <cstring>

#include "collectives/device/host/host_device.h"
#include "collectives/device/host/kernels.h"
#include "tests/collectives/device/scan_oracle.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/inputs.h"
#include "tests/test_seed.h"

namespace stepgate::gpu {
namespace {

constexpr float kMultipliers[] = {1.0f / 65536, 0.3f, 1e-30f, 3e38f, 1.0f};

bool same_value(ElementType t, std::uint64_t got, std::uint64_t want) {
  return got == want || (std::isnan(value_of(t, got)) && std::isnan(value_of(t, want)));
}

std::uint64_t element(const Bytes& bytes, ElementType t, std::size_t i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * element_size(t), element_size(t));
  return bits;
}

Elements wild_and_calm(ElementType t, Random& random, std::size_t n) {
  Elements e = any_bits(t, n, random);
  const Elements calm = spread(t, n, random);
  e.insert(e.end(), calm.begin(), calm.end());
  return e;
}

struct Multiplication {
  Session& session;
  ElementType type;
  Elements elements;
  std::size_t offset;

  // Multiplies on the device; the bytes behind `offset`, or the widened ones.
  Bytes run(float multiplier, bool skip, bool widen) const {
    const Bytes bytes = packed(type, elements, offset);
    Buffer data(session, bytes.size() + 64);
    Buffer wide(session, elements.size() * 4 + 64);
    Buffer outputs(session, sizeof(Outputs));
    Outputs o;
    o.found_inf = skip ? 1 : 0;
    o.multiplier = multiplier;
    data.put(bytes.data(), bytes.size());
    outputs.put(&o, sizeof o);
    device::Apply job;
    job.data = data.as<>() + offset;
    job.count = elements.size();
    job.stored = type;
    job.outputs = outputs.as<Outputs>();
    if (widen) job.out = wide.as<>();
    if (session.device().apply(session.stream(), job) != device::Code::kOk)
      give_up(session.device().last_error());
    if (widen) return wide.get(elements.size() * 4);
    // What lies around the elements is not written.
    Bytes after = data.get(bytes.size());
    for (std::size_t i = 0; i < offset; ++i) {
      if (after[i] != 0xee) give_up("apply wrote in front of its range");
    }
    after.erase(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(offset));
    return after;
  }
};

std::string in_place(Session& session, ElementType t, Random& random, std::size_t n) {
  for (const float m : kMultipliers) {
    for (std::size_t offset = 0; offset < 16; offset += 5 * element_size(t)) {
      const Multiplication job{session, t, wild_and_calm(t, random, n), offset};
      const Bytes got = job.run(m, false, false);
      for (std::size_t i = 0; i < job.elements.size(); ++i) {
        const std::uint64_t want = test::oracle_product(t, job.elements[i], m);
        if (!same_value(t, element(got, t, i), want))
          return "element " + std::to_string(i) + " times " + std::to_string(m);
      }
    }
  }
  const Multiplication job{session, t, wild_and_calm(t, random, n), 0};
  return job.run(0.5f, true, false) == packed(t, job.elements, 0) ? "" : "a skip wrote gradients";
}

std::string widened(Session& session, ElementType t, Random& random, std::size_t n) {
  for (const float m : kMultipliers) {
    const Multiplication job{session, t, wild_and_calm(t, random, n), 2};
    const Bytes got = job.run(m, false, true);
    for (std::size_t i = 0; i < job.elements.size(); ++i) {
      const float want = static_cast<float>(value_of(t, job.elements[i])) * m;
      const std::uint64_t bits = element(got, ElementType::kFp32, i);
      if (!same_value(ElementType::kFp32, bits, std::bit_cast<std::uint32_t>(want))) {
        return "element " + std::to_string(i) + " times " + std::to_string(m);
      }
    }
  }
  return "";
}

// Against HostDevice, statistics and products both. Empty also where the device has no such scan yet.
std::string scan_in_place(Session& session, ElementType t, Random& random, std::size_t n, bool* supported) {
  device::HostDevice host(device::host::reference_kernels());
  const Elements e = wild_and_calm(t, random, n);
  Bytes mine = packed(t, e, 0);
  Buffer data(session, mine.size());
  Buffer scale(session, sizeof(double));
  Buffer total(session, sizeof(GradStats));
  const double unscale_by = 65536;
  data.put(mine.data(), mine.size());
  scale.put(&unscale_by, sizeof unscale_by);
  const device::Segment there{data.as<>(), e.size()};
  const device::Segment here{mine.data(), e.size()};
  GradStats want;
  device::Scan job{.segments = {&there, 1}, .stored = t, .compute = t, .total = total.as<GradStats>()};
  job.unscale_by = scale.as<double>();
  const device::Code code = session.device().scan(session.stream(), job);
  job.segments = {&here, 1};
  job.total = &want;
  job.unscale_by = &unscale_by;
  *supported = code != device::Code::kUnsupported && host.scan(nullptr, job) == device::Code::kOk;
  if (!*supported) return "";
  if (code != device::Code::kOk) return session.device().last_error();
  const std::string d = difference(total.value<GradStats>(), want);
  if (!d.empty()) return d;
  const Bytes got = data.get(mine.size());
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (!same_value(t, element(got, t, i), element(mine, t, i))) return "element " + std::to_string(i);
  }
  return "";
}

std::string absorbed(Session& session, ElementType t, Random& random, std::size_t n) {
  device::HostDevice host(device::host::reference_kernels());
  const Bytes before = packed(t, spread(t, n, random), 0);
  const Bytes after = [&] {
    Bytes b = before;
    for (std::size_t i = 0; i < n; i += 3) b[i * element_size(t)] ^= 1;
    return b;
  }();
  Elements u = any_bits(t, n, random);
  for (std::size_t i = 0; i < n; i += 5) u[i] = 0;
  const Bytes update = packed(t, u, 0);
  Buffer b(session, before.size()), a(session, before.size()), x(session, before.size()), total(session, 256);
  b.put(before.data(), before.size());
  a.put(after.data(), after.size());
  x.put(update.data(), update.size());
  device::UpdateStats want;
  device::ObserveUpdate job{before.data(), after.data(), update.data(), n, t, &want};
  if (host.observe_update(nullptr, job) != device::Code::kOk) return host.last_error();
  job = {b.as<>(), a.as<>(), x.as<>(), n, t, total.as<device::UpdateStats>()};
  if (session.device().observe_update(session.stream(), job) != device::Code::kOk)
    return session.device().last_error();
  const auto got = total.value<device::UpdateStats>();
  const bool equal =
      got.elements == want.elements && got.updates == want.updates && got.absorbed == want.absorbed;
  return equal ? "" : "absorbed " + std::to_string(got.absorbed) + " want " + std::to_string(want.absorbed);
}

}  // namespace

void product_cases(Session& session, const Options& options, Results& results) {
  const std::size_t n = options.brief ? 500 : options.small ? 3000 : 300000;
  for (const ElementType t :
       {ElementType::kFp32, ElementType::kFp16, ElementType::kBf16, ElementType::kFp64}) {
    Random random(test_seed());
    const std::string type = element_type_name(t);
    results.check("apply " + type + ": any bits, five multipliers, misaligned, a skip",
                  in_place(session, t, random, n));
    if (element_size(t) == 2) results.check("apply " + type + " to fp32", widened(session, t, random, n));
    bool supported = false;
    const std::string problem = scan_in_place(session, t, random, n, &supported);
    if (supported) {
      results.check("scan in place " + type, problem);
    } else {
      results.skipped("scan in place " + type, "this build's device has none");
    }
    results.check("observe_update " + type, absorbed(session, t, random, n));
  }
}

}  // namespace stepgate::gpu

// The scan of every type against reference.h: equal in bits, whatever the input.
#include <cmath>
#include <cstring>
#include <thread>

#include "tests/gpu/cases.h"
#include "tests/gpu/inputs.h"
#include "tests/test_seed.h"

namespace stepgate::gpu {
namespace {

using device::Scan;
using device::Segment;

struct Found {
  GradStats total;
  std::int32_t first_bad = -2;
};

class ScanCases {
 public:
  ScanCases(Session& session, ElementType t, std::size_t bytes)
      : session_(session), type_(t), data_(session, bytes + 64), total_(session, 256), bad_(session, 256) {}

  Buffer& data() { return data_; }

  Found scan(std::uint64_t count, std::size_t offset, ElementType compute) {
    const Segment segment{data_.as<>() + offset, count};
    Scan job{.segments = {&segment, 1}, .stored = type_, .compute = compute};
    job.total = total_.as<GradStats>();
    job.first_bad = bad_.as<std::int32_t>();
    if (session_.device().prepare(job) != device::Code::kOk ||
        session_.device().scan(session_.stream(), job) != device::Code::kOk) {
      give_up(session_.device().last_error());
    }
    return {total_.value<GradStats>(), bad_.value<std::int32_t>()};
  }

  // Empty, or how the device's figures differ.
  std::string compare(const Elements& e, std::size_t offset = 0, ElementType compute = ElementType::kFp16) {
    const Bytes bytes = packed(type_, e, offset);
    data_.put(bytes.data(), bytes.size());
    return judge(scan(e.size(), offset, compute),
                 reference_scan(type_, compute, bytes.data() + offset, e.size()));
  }

  static std::string judge(const Found& got, const GradStats& want) {
    const std::string d = difference(got.total, want);
    if (!d.empty()) return d;
    const std::int32_t bad = want.inf + want.nan != 0 ? 0 : -1;
    return got.first_bad == bad ? "" : "first_bad " + std::to_string(got.first_bad);
  }

 private:
  Session& session_;
  ElementType type_;
  Buffer data_, total_, bad_;
};

std::string all_cases(ScanCases& scans, const std::vector<Case>& cases, ElementType compute) {
  for (const Case& c : cases) {
    const std::string d = scans.compare(c.elements, 0, compute);
    if (!d.empty()) return c.name + ": " + d;
  }
  return "";
}

std::string every_compute_type(ScanCases& scans, ElementType t, Random& random) {
  const std::vector<Case> some = {{"any bits", any_bits(t, 3000, random)},
                                  {"spread", spread(t, 9000, random)}};
  std::string d;
  for (const ElementType compute : kAllTypes) d += all_cases(scans, some, compute);
  return d;
}

std::string every_alignment(ScanCases& scans, ElementType t, Random& random) {
  Elements e = spread(t, 2 * 8192 + 5, random);
  e[0] = e[8191] = e[8192] = 1;
  for (std::size_t skip = 0; skip < 16; skip += element_size(t)) {
    const std::string d = scans.compare(e, skip);
    if (!d.empty()) return std::to_string(skip) + " bytes off: " + d;
  }
  return "";
}

// The norm against exact arithmetic.
std::string norm_is_exact(ScanCases& scans, ElementType t, std::uint64_t count) {
  const Bytes bytes = healthy_bytes(t, count, test_seed() + 17);
  scans.data().put(bytes.data(), bytes.size());
  const auto got = static_cast<long double>(scans.scan(count, 0, t).total.sum_squares);
  const long double want = exact_squares(t, bytes.data(), count);
  const long double error = std::fabs(std::sqrt(got) / std::sqrt(want) - 1);
  return error <= 1e-6L ? "" : "relative error of the norm " + std::to_string(static_cast<double>(error));
}

// Healthy but for one NaN, at a place that no vector begins at.
std::string large(ScanCases& scans, ElementType t, std::uint64_t bytes_wanted) {
  const std::uint64_t count = bytes_wanted / element_size(t) - 3;
  Bytes bytes = healthy_bytes(t, count, test_seed());
  for (const bool spoilt : {false, true}) {
    if (spoilt) {
      const std::uint64_t nan = nan_of(t);
      std::memcpy(bytes.data() + (count / 2 + 1) * element_size(t), &nan, element_size(t));
    }
    GradStats want;
    std::thread host([&] { want = reference_scan(t, ElementType::kFp16, bytes.data(), count); });
    scans.data().put(bytes.data(), bytes.size(), element_size(t));
    const Found got = scans.scan(count, element_size(t), ElementType::kFp16);
    host.join();
    const std::string d = ScanCases::judge(got, want);
    if (!d.empty()) return d;
  }
  return "";
}

// More segments than one launch takes, empty ones among them, one bad.
std::string many_segments(Session& session, ElementType t, Random& random) {
  constexpr std::size_t kCount = 2 * cuda::kSegmentsPerLaunch + 11;
  Buffer data(session, kCount * 100 * element_size(t));
  Buffer each(session, kCount * sizeof(GradStats));
  Buffer total(session, sizeof(GradStats));
  Buffer bad(session, 256);
  Elements all = spread(t, kCount * 100, random);
  all[300 * 100 + 5] = nan_of(t);
  const Bytes bytes = packed(t, all, 0);
  data.put(bytes.data(), bytes.size());
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < kCount; ++i) {
    segments.push_back({data.as<>() + i * 100 * element_size(t), i == 300 ? 50 : random() % 100});
  }
  const Scan job{.segments = segments,
                 .stored = t,
                 .compute = t,
                 .total = total.as<GradStats>(),
                 .per_segment = each.as<GradStats>(),
                 .first_bad = bad.as<std::int32_t>()};
  if (session.device().prepare(job) != device::Code::kOk ||
      session.device().scan(session.stream(), job) != device::Code::kOk) {
    return session.device().last_error();
  }
  const Bytes got = each.get(kCount * sizeof(GradStats));
  for (std::size_t i = 0; i < kCount; ++i) {
    GradStats one;
    std::memcpy(&one, got.data() + i * sizeof one, sizeof one);
    const unsigned char* at = bytes.data() + i * 100 * element_size(t);
    const std::string d = difference(one, reference_scan(t, t, at, segments[i].count));
    if (!d.empty()) return "segment " + std::to_string(i) + ": " + d;
  }
  const auto first = bad.value<std::int32_t>();
  return first == 300 ? "" : "first bad segment " + std::to_string(first);
}

// Ranges of all sizes in as few launches as the device can, each as if it were alone.
std::string several_ranges(Session& session, ElementType t, Random& random) {
  constexpr std::size_t kCount = 130;
  std::vector<std::uint64_t> counts;
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    counts.push_back(i % 40 == 3 ? 0 : i % 40 == 9 ? 9000 : random() % 700);
    all += counts.back();
  }
  const Bytes bytes = packed(t, spread(t, all, random), 0);
  Buffer data(session, bytes.size());
  Buffer totals(session, kCount * sizeof(GradStats));
  data.put(bytes.data(), bytes.size());
  std::vector<Segment> segments(kCount);
  std::vector<Scan> jobs;
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    segments[i] = {data.as<>() + first * element_size(t), counts[i]};
    first += counts[i];
    Scan job{.segments = {&segments[i], 1}, .stored = t, .compute = t};
    job.total = totals.as<GradStats>() + i;
    if (session.device().prepare(job) != device::Code::kOk) return session.device().last_error();
    jobs.push_back(job);
  }
  if (session.device().scan_all(session.stream(), jobs) != device::Code::kOk)
    return session.device().last_error();
  const Bytes got = totals.get(kCount * sizeof(GradStats));
  const unsigned char* at = bytes.data();
  for (std::size_t i = 0; i < kCount; at += counts[i] * element_size(t), ++i) {
    GradStats one;
    std::memcpy(&one, got.data() + i * sizeof one, sizeof one);
    const std::string d = difference(one, reference_scan(t, t, at, counts[i]));
    if (!d.empty()) return "range " + std::to_string(i) + ": " + d;
  }
  return "";
}

// Past 2^32 elements: zeros but for two, whose places need 33 bits.
std::string past_32_bits(Session& session) {
  constexpr ElementType kType = ElementType::kFp8E4M3;
  const std::uint64_t n = (std::uint64_t{1} << 32) + 3 * 8192 + 77;
  ScanCases scans(session, kType, n);  // allocated zeroed
  const auto nan = static_cast<unsigned char>(nan_of(kType));
  const auto largest = static_cast<unsigned char>(largest_of(kType));
  scans.data().put(&nan, 1, (std::size_t{1} << 32) + 5);
  scans.data().put(&largest, 1, n - 1);
  GradStats want;
  want.elements = n;
  want.zeros = n - 2;
  want.nan = 1;
  want.abs_max = value_of(kType, largest);
  want.sum_squares = want.abs_max * want.abs_max;
  return ScanCases::judge(scans.scan(n, 0, kType), want);
}

std::vector<Case> thinned(std::vector<Case> cases) {
  std::vector<Case> some;
  for (std::size_t i = 5; i < cases.size(); i += 11) some.push_back(std::move(cases[i]));
  return some;
}

}  // namespace

void scan_cases(Session& session, const Options& options, Results& results) {
  const std::size_t most = options.small ? std::size_t{1} << 20 : std::size_t{256} << 20;
  for (const ElementType t : kAllTypes) {
    Random random(test_seed());
    const std::string name = std::string("scan ") + element_type_name(t) + ": ";
    ScanCases scans(session, t, most);
    std::vector<Case> cases = adversarial(t, random);
    if (options.brief) cases = thinned(std::move(cases));
    results.check(name + "adversarial inputs, 0 to 70 elements, unit edges",
                  all_cases(scans, cases, ElementType::kFp16));
    if (!options.brief) results.check(name + "every compute type", every_compute_type(scans, t, random));
    results.check(name + "every alignment", every_alignment(scans, t, random));
    results.check(name + "395 segments in three launches", many_segments(session, t, random));
    results.check(name + "130 ranges at once", several_ranges(session, t, random));
    results.check(name + "norm within 1e-6 of exact",
                  norm_is_exact(scans, t, options.small ? 30000 : 4000000));
    results.check(name + (options.small ? "1 MiB" : "256 MiB") + ", with and without a NaN",
                  large(scans, t, most));
  }
  if (!options.small) results.check("scan: more than 2^32 elements", past_32_bits(session));
}

}  // namespace stepgate::gpu

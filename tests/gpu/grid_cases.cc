// Scans launched by hand, in other grids, blocks and cuts than the tuning's: every figure has the same bits.
#include <cstring>

#include "collectives/device/cuda/kernels/limits.h"
#include "collectives/device/cuda/launch.h"
#include "collectives/device/cuda/scan_plan.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/inputs.h"
#include "tests/test_seed.h"

namespace stepgate::gpu {
namespace {

using device::cuda::Kernel;
using device::cuda::KernelSet;

constexpr Kernel kScans[] = {Kernel::stepgate_scan_fp32,     Kernel::stepgate_scan_fp16,
                             Kernel::stepgate_scan_bf16,     Kernel::stepgate_scan_fp64,
                             Kernel::stepgate_scan_fp8_e4m3, Kernel::stepgate_scan_fp8_e5m2};

struct Cut {
  device::cuda::Shape shape;
  std::uint32_t group_log2;
};
constexpr Cut kCuts[] = {{{1, 32}, 0},   {{3, 64}, 0},    {{7, 128}, 2},
                         {{40, 256}, 6}, {{132, 256}, 1}, {{528, 64}, 3}};

class Scanner {
 public:
  Scanner(Session& session, const KernelSet& kernels, ElementType t, std::uint64_t bytes)
      : session_(session),
        kernels_(kernels),
        type_(t),
        data_(session, bytes),
        result_(session, sizeof(GradStats)) {}

  Buffer& data() { return data_; }

  std::string scan(const device::Segment& segment, const Cut& cut, GradStats* out) {
    const auto need = device::cuda::scratch_need({&segment, 1}, cut.group_log2);
    Buffer groups(session_, need.groups * sizeof(GradStats));
    Buffer bundles(session_, need.bundles * sizeof(GradStats));
    Buffer segments(session_, sizeof(GradStats));
    Buffer tickets(session_, need.tickets * sizeof(std::uint32_t));
    device::cuda::Scratch scratch;
    scratch.room = need;
    scratch.groups = groups.as<GradStats>();
    scratch.bundles = bundles.as<GradStats>();
    scratch.segments = segments.as<GradStats>();
    scratch.tickets = tickets.as<std::uint32_t>();
    device::Scan job{.segments = {&segment, 1}, .stored = type_, .compute = ElementType::kFp16};
    job.total = result_.as<GradStats>();
    device::cuda::ScanLaunch launch(cut.group_log2);
    std::uint32_t next = 0;
    if (!launch.take(job, scratch, &next)) return "one segment does not fit one launch";
    cuda::ScanArguments a{};
    launch.write(&a);
    a.limits = cuda::scan_limits(type_, ElementType::kFp16);
    const Kernel kernel = kScans[static_cast<std::size_t>(type_)];
    if (kernels_.launch("scan", kernel, cut.shape, session_.stream(), a) != device::Code::kOk) {
      return session_.device().last_error();
    }
    *out = result_.value<GradStats>();
    return "";
  }

 private:
  Session& session_;
  const KernelSet& kernels_;
  ElementType type_;
  Buffer data_, result_;
};

std::string same_from_all_cuts(Scanner& scanner, const device::Segment& segment) {
  GradStats first;
  for (const Cut& cut : kCuts) {
    GradStats got;
    const std::string problem = scanner.scan(segment, cut, &got);
    if (!problem.empty()) return problem;
    if (&cut == kCuts) first = got;
    const std::string d = difference(got, first);
    if (!d.empty()) {
      return std::to_string(cut.shape.blocks) + " blocks of " + std::to_string(cut.shape.threads) + ": " + d;
    }
  }
  return "";
}

}  // namespace

void grid_cases(Session& session, const Options& options, Results& results) {
  std::string error;
  std::shared_ptr<device::cuda::Driver> driver(&session.driver(), [](auto*) {});
  const auto context = device::cuda::PrimaryContext::retain(driver, 0, &error);
  const auto kernels = context != nullptr ? KernelSet::load(*context, session.image(), &error) : nullptr;
  if (kernels == nullptr) {
    results.check("grids: kernels load", error);
    return;
  }
  for (const ElementType t : kAllTypes) {
    Random random(test_seed());
    Elements e = spread(t, (options.small ? 19 : 3000) * kUnitElements + 4321, random);
    e[5 * kUnitElements + 3] = nan_of(t);
    const Bytes bytes = packed(t, e, 0);
    Scanner scanner(session, *kernels, t, bytes.size());
    scanner.data().put(bytes.data(), bytes.size());
    results.check(std::string("scan ") + element_type_name(t) + ": six grids and cuts give the same bits",
                  same_from_all_cuts(scanner, {scanner.data().as<>(), e.size()}));
  }
}

}  // namespace stepgate::gpu

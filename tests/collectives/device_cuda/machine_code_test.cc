// What the compiler made of the kernels, for every architecture of the fatbin: the kernels that are
// listed and no others, no spills, and no more instructions per element in the hot loops than budgeted.
#include "tests/collectives/device_cuda/machine_code.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "collectives/device/cuda/kernels/arguments.h"
#include "collectives/device/cuda/kernels/tuning.h"

namespace stepgate::test {
namespace {

// Set by CMake; empty where the machine has no such thing.
const std::string kFatbin = STEPGATE_TEST_FATBIN;
const std::string kArchitectures = STEPGATE_TEST_ARCHITECTURES;
const std::string kCuobjdump = STEPGATE_TEST_CUOBJDUMP;
const std::string kNvdisasm = STEPGATE_TEST_NVDISASM;

std::set<std::string> listed_kernels() {
  return {
#define STEPGATE_KERNEL_NAME(NAME, ARGUMENTS) #NAME,
      STEPGATE_CUDA_KERNELS(STEPGATE_KERNEL_NAME)
#undef STEPGATE_KERNEL_NAME
  };
}

TEST(MachineCode, EveryListedKernelAndNoSpills) {
  if (kFatbin.empty()) GTEST_SKIP() << "this build found no nvcc, so there is no fatbin";
  const auto log = read_ptxas_log(kFatbin + ".log");
  std::string architectures;
  for (const auto& [architecture, kernels] : log) {
    architectures += architecture.substr(3) + ",";
    std::set<std::string> names;
    for (const auto& [name, r] : kernels) {
      names.insert(name);
      // The steps of a gate are one thread's work, once a step: what they spill costs nothing.
      const bool over_elements =
          name.find("_scan_") != std::string::npos || name.find("_unscale_") != std::string::npos ||
          name.find("_apply_") != std::string::npos || name.find("_absorbed_") != std::string::npos ||
          name.find("_widen_") != std::string::npos;
      EXPECT_LE(r.spill_bytes, over_elements ? 0 : 64) << name << " " << architecture;
      EXPECT_GT(r.registers, 0) << name << " " << architecture;
      EXPECT_LE(r.registers, 255) << name << " " << architecture;
    }
    EXPECT_EQ(names, listed_kernels()) << architecture;
  }
  for (std::size_t at = 0; at < kArchitectures.size();) {
    const std::size_t end = kArchitectures.find(',', at);
    const std::string one = kArchitectures.substr(at, end - at);
    EXPECT_EQ(log.count("sm_" + one), 1u) << "no code for sm_" << one << ", only for " << architectures;
    at = end == std::string::npos ? kArchitectures.size() : end + 1;
  }
}

struct Budget {
  const char* type;
  std::uint32_t element_bytes;
  std::uint32_t per_load;  // elements
  double instructions;     // per element
  double alu;
};
// The goals are on instructions, and for 16 bits on operations of the integer unit too (64 a clock, what
// a scan meets first); the other figures of that unit are what was counted, so that a rise is seen.
constexpr Budget kBudgets[] = {{"fp32", 4, 4, 7, 5.2},       {"fp16", 2, 8, 6, 3.5},
                               {"bf16", 2, 8, 6, 3.5},       {"fp64", 8, 2, 16, 12},
                               {"fp8_e4m3", 1, 8, 5.5, 3.2}, {"fp8_e5m2", 1, 8, 5.5, 3.2}};
// Both loops together. The goal is on 16 bits; the other figures are what was counted.
constexpr Budget kInPlaceBudgets[] = {
    {"fp32", 4, 4, 9, 6}, {"fp16", 2, 8, 8, 3.6}, {"bf16", 2, 8, 8, 4.6}, {"fp64", 8, 2, 22, 14}};

// What an architecture may take beyond that: sm_75 has no maximum of two halves at once; sm_120 does
// integer work in all its lanes, and its compiler makes use of that.
double allowance(std::uint32_t architecture) {
  if (architecture < 80) return 2.5;
  return architecture == 120 ? 0.1 : 0;
}

// In place sm_75 takes more: it has no instruction that packs two halves, and none that rounds to bf16.
double in_place_allowance(std::uint32_t architecture) {
  return architecture < 80 ? 9.5 : allowance(architecture);
}

// Reports and checks what a turn over so many loads of a kernel costs per element.
void check_cost(const std::string& architecture, const char* kernel, const Budget& b, const LoopCost& cost,
                std::uint32_t loads, double extra) {
  const double elements = loads * b.per_load;
  std::printf("%-7s %-7s %-9s instructions %.2f, ALU %.2f per element\n", architecture.c_str(), kernel,
              b.type, cost.instructions / elements, cost.alu / elements);
  EXPECT_LE(cost.instructions / elements, b.instructions + extra) << kernel << b.type << " " << architecture;
  EXPECT_LE(cost.alu / elements, b.alu + extra) << kernel << b.type << " " << architecture;
  EXPECT_EQ(cost.stack, 0) << "local memory in the hot loop: " << kernel << b.type << " " << architecture;
}

void check_scan(const std::string& architecture, const Listing& kernel, const Budget& b) {
  const auto number = static_cast<std::uint32_t>(std::stoul(architecture.substr(3)));
  const std::uint32_t loads = cuda::scan_tuning(number, b.element_bytes).loads_in_flight;
  const LoopCost cost = hot_loop(kernel, {static_cast<int>(loads), b.element_bytes == 1 ? 64 : 128});
  ASSERT_GT(cost.instructions, 0) << "no hot loop found: " << b.type << " " << architecture;
  check_cost(architecture, "scan", b, cost, loads, allowance(number));
}

// In place: one loop reads and counts, one reads again and writes.
void check_unscale(const std::string& architecture, const Listing& kernel, const Budget& b) {
  const auto number = static_cast<std::uint32_t>(std::stoul(architecture.substr(3)));
  const std::uint32_t loads = cuda::unscale_tuning(number, b.element_bytes).loads_in_flight;
  const auto n = static_cast<int>(loads);
  const LoopCost look = hot_loop(kernel, {n, 128, false, 0});
  const LoopCost multiply = hot_loop(kernel, {n, 128, false, n});
  ASSERT_GT(look.instructions, 0) << "no loop that counts: " << b.type << " " << architecture;
  ASSERT_GT(multiply.instructions, 0) << "no loop that multiplies: " << b.type << " " << architecture;
  check_cost(
      architecture, "unscale", b,
      {look.instructions + multiply.instructions, look.alu + multiply.alu, 0, 0, look.stack + multiply.stack},
      loads, in_place_allowance(number));
}

const Listing& listing(const std::map<std::string, Listing>& kernels, const std::string& name) {
  static const Listing kNone;
  const auto found = kernels.find(name);
  EXPECT_NE(found, kernels.end()) << name;
  return found != kernels.end() ? found->second : kNone;
}

TEST(MachineCode, HotLoopsStayInBudget) {
  if (kFatbin.empty()) GTEST_SKIP() << "this build found no nvcc, so there is no fatbin";
  if (kCuobjdump.empty() || kNvdisasm.empty()) {
    GTEST_SKIP() << "counting instructions needs cuobjdump and nvdisasm, which were not found";
  }
  const auto all = disassemble(kFatbin, kCuobjdump, kNvdisasm);
  EXPECT_FALSE(all.empty()) << "cuobjdump found no cubin in " << kFatbin;
  for (const auto& [architecture, kernels] : all) {
    std::set<std::string> symbols;
    for (const auto& [name, code] : kernels) symbols.insert(name);
    EXPECT_EQ(symbols, listed_kernels()) << architecture;
    for (const Budget& b : kBudgets) {
      check_scan(architecture, listing(kernels, std::string("stepgate_scan_") + b.type), b);
    }
    for (const Budget& b : kInPlaceBudgets) {
      check_unscale(architecture, listing(kernels, std::string("stepgate_unscale_") + b.type), b);
    }
  }
}

// The counting itself, on a listing in the disassembler's form.
TEST(MachineCodeParser, FindsTheInnermostLoop) {
  const std::string text =
      ".text.k:\n"
      "        /*0000*/                   MOV R1, c[0x0][0x28] ;\n"
      ".L_x_1:\n"
      "        /*0010*/                   LDG.E.NA.128.CONSTANT R4, desc[UR4][R2.64] ;\n"
      ".L_x_0:\n"
      "        /*0020*/                   LDG.E.NA.128.CONSTANT R8, desc[UR4][R2.64] ;\n"
      "        /*0030*/               @P0 LOP3.LUT R9, R8, 0x1, RZ, 0xc0, !PT ;\n"
      "        /*0040*/                   STL [R1], R9 ;\n"
      "        /*0050*/              @!P1 BRA `(.L_x_0) ;\n"
      "        /*0060*/                   BRA `(.L_x_1) ;\n"
      ".L_x_2:\n"
      "        /*0070*/                   LDG.E.128 R8, desc[UR4][R2.64] ;\n"
      "        /*0080*/                   STG.E.128 desc[UR4][R2.64], R8 ;\n"
      "        /*0090*/               @P0 BRA `(.L_x_2) ;\n";
  const auto kernels = parse_disassembly(text);
  ASSERT_EQ(kernels.count("k"), 1u);
  const LoopCost inner = hot_loop(kernels.at("k"), {1, 128});
  EXPECT_EQ(inner.instructions, 4);
  EXPECT_EQ(inner.alu, 1);
  EXPECT_EQ(inner.stack, 1);
  EXPECT_EQ(hot_loop(kernels.at("k"), {2, 128}).instructions, 6);
  EXPECT_EQ(hot_loop(kernels.at("k"), {1, 64}).instructions, 0);
  EXPECT_EQ(hot_loop(kernels.at("k"), {1, 128, false, 1}).instructions, 3);
  EXPECT_EQ(hot_loop(kernels.at("k"), {1, 128, false, 0}).instructions, 0);
}

}  // namespace
}  // namespace stepgate::test

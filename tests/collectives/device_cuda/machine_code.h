// The machine code of the fatbin as text: what ptxas said while it was made, and its hot loops taken
// apart by NVIDIA's disassembler.
//
// Thread: any one; starts processes, writes into a folder of its own below the temporary one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace stepgate::test {

struct KernelResources {
  int registers = 0;
  int spill_bytes = 0;  // stores and loads
};
// By architecture ("sm_90") and kernel name. Throws where the log cannot be read.
std::map<std::string, std::map<std::string, KernelResources>> read_ptxas_log(const std::string& path);

// One kernel's instructions, in order, without addresses; labels as indices into them.
struct Listing {
  std::vector<std::string> instructions;
  std::map<std::string, std::size_t> labels;
};
std::map<std::string, Listing> parse_disassembly(const std::string& text);

// Disassembles every cubin of the fatbin: by architecture and kernel name.
std::map<std::string, std::map<std::string, Listing>> disassemble(const std::string& fatbin,
                                                                  const std::string& cuobjdump,
                                                                  const std::string& nvdisasm);

struct LoopCost {
  int instructions = 0;
  int alu = 0;     // integer and comparison unit
  int loads = 0;   // vector loads
  int stores = 0;  // vector stores
  int stack = 0;   // local loads and stores
};
// How a loop is recognised: vectors of `width` bits that it reads and writes in one turn.
struct LoopShape {
  int loads;
  int width;
  bool read_only = true;  // loads of memory that the kernel does not write
  int stores = 0;
};
// The innermost loop of this shape; all zero where there is none.
LoopCost hot_loop(const Listing& kernel, const LoopShape& shape);

}  // namespace stepgate::test

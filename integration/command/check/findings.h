// What `stepgate check` found out about a machine and a build: plain data, one struct per thing looked at.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <string>
#include <vector>

namespace stepgate::command {

enum class State {
  kOk,
  kNote,  // worth knowing; nothing is wrong
  kWrong  // what the machine promises will not work
};

// One line of the table.
struct Line {
  std::string subject;
  State state = State::kOk;
  std::string text;
  std::string remedy = {};  // what to do, where something is to be done
};

// The kernels of this build, as the plugin carries them.
struct DeviceCode {
  bool present = false;
  int cuda = 0;                    // 13000: compiled by CUDA 13.0
  std::vector<int> architectures;  // 90: machine code for sm_90
  int ptx = 0;                     // 120: PTX of compute_120; 0: none
};

struct GpuDevice {
  int ordinal = 0;
  std::string name;
  int capability = 0;  // 90: compute capability 9.0
};

struct CudaDriver {
  bool found = false;         // libcuda.so.1 could be opened
  std::string error;          // why it cannot be used; "" where it can
  bool without_gpu = false;   // it says that the machine has no device
  int version = 0;            // 13000: offers CUDA 13.0; 0: not known
  std::string kernel_module;  // "580.65.06", or ""
  std::vector<GpuDevice> devices;
};

struct NcclLibrary {
  bool found = false;
  std::string path;
  int version = 0;  // 22809: 2.28.9
};

struct Findings {
  std::string folder;                // of the plugin's libraries
  std::vector<std::string> missing;  // which of them are not there
  DeviceCode code;
  CudaDriver driver;
  NcclLibrary nccl;       // what the dynamic loader gives to a program that is linked to NCCL
  NcclLibrary host_nccl;  // on host memory, of this installation
};

}  // namespace stepgate::command

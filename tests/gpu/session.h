// One device as the GPU programs use it: driver, kernels, a stream, streams' captures.
//
//   Session s(options_from(argc, argv));      // ends the program with a sentence where there is no device
//   s.device().scan(s.stream(), job);
//
// Thread: the program's one. Order: the session outlives what was allocated from it. Lock: none.
// Ownership: it owns stream and device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/device/cuda/cuda_device.h"

namespace stepgate::gpu {

struct Options {
  std::string image;      // file with the kernels
  std::string baselines;  // file with the kernels that others are measured by; may be absent
  std::string cub;        // shared library with CUB's sum; may be absent
  std::string results = "/dev/stdout";
  bool small = false;    // sizes for the CPU stand-in or for compute-sanitizer
  bool standin = false;  // the driver is the CPU stand-in: no speed counts
  bool brief = false;    // small, and only some cases: compute-sanitizer is slow
};
// --image F --baselines F --cub F --results F --small --brief --standin
Options options_from(int argc, char** argv);

class Session {
 public:
  explicit Session(const Options& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  device::CudaDevice& device() { return *device_; }
  device::cuda::Driver& driver() { return *driver_; }
  const void* image() const { return image_.data(); }
  device::Stream stream() const { return stream_; }
  device::cuda::StreamHandle handle() const { return stream_; }
  // 90: compute capability 9.0.
  int capability() const { return capability_; }
  std::string name() const { return name_; }
  void wait();

 private:
  std::shared_ptr<device::cuda::Driver> driver_;
  std::string image_;
  std::unique_ptr<device::CudaDevice> device_;
  device::cuda::ContextHandle context_ = nullptr;
  device::cuda::StreamHandle stream_ = nullptr;
  int capability_ = 0;
  std::string name_;
};

// What `enqueue` puts on the session's stream, as a graph that can be launched again and again.
class Graph {
 public:
  // Empty problem(): it was captured.
  Graph(Session& session, const std::function<bool()>& enqueue);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::string& problem() const { return problem_; }
  bool launch();

 private:
  Session& session_;
  device::cuda::GraphHandle graph_ = nullptr;
  device::cuda::GraphExecHandle exec_ = nullptr;
  std::string problem_;
};

// Device memory of a session.
class Buffer {
 public:
  Buffer(Session& session, std::size_t bytes, device::Memory kind = device::Memory::kDevice);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  template <class T = unsigned char>
  T* as() const {
    return static_cast<T*>(memory_);
  }
  std::size_t bytes() const { return bytes_; }
  // Both wait.
  void put(const void* from, std::size_t bytes, std::size_t offset = 0);
  std::vector<unsigned char> get(std::size_t bytes, std::size_t offset = 0) const;
  template <class T>
  T value() const {
    T result;
    const std::vector<unsigned char> raw = get(sizeof(T));
    __builtin_memcpy(&result, raw.data(), sizeof(T));
    return result;
  }

 private:
  Session& session_;
  std::size_t bytes_;
  device::Memory kind_;
  void* memory_;
};

[[noreturn]] void give_up(const std::string& why);

}  // namespace stepgate::gpu

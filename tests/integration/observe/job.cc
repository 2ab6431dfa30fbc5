// A job that uses NCCL and knows nothing of the plugin: rank RANK of 2, STEPS steps. What every collective
// left goes to FOLDER/bytes.RANK; where FOLDER/stay is, it then waits for FOLDER/stop. Where FOLDER/scaled
// is, it tells one thing: the scale of its own scaler, which it takes back at FOLDER/forget, by the end of
// its gate alone, to go on for as many steps without.
//
//   observe_job FOLDER RANK STEPS
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "collectives/nccl_abi/nccl_abi.h"
#include "stepgate/client.h"

namespace {

constexpr int kWorld = 2;
constexpr std::size_t kElements = 5000;

void need(stepgate_status status, const char* what) {
  if (status == STEPGATE_OK) return;
  std::printf("failed: %s: %s\n", what, stepgate_client_last_error());
  std::fflush(stdout);
  std::_Exit(1);
}

void need(ncclResult_t code, const char* what) {
  if (code == ncclSuccess) return;
  std::printf("failed: %s: %s\n", what, ncclGetLastError(nullptr));
  std::fflush(stdout);
  std::_Exit(1);
}

bool there(const std::string& file) {
  return access(file.c_str(), F_OK) == 0;
}

void wait_until(const std::string& file) {
  while (!there(file)) usleep(2000);
}

ncclUniqueId meet(const std::string& folder, int rank) {
  ncclUniqueId id{};
  const std::string file = folder + "/id";
  if (rank == 0) {
    need(ncclGetUniqueId(&id), "ncclGetUniqueId");
    std::ofstream(file + ".new", std::ios::binary).write(reinterpret_cast<const char*>(&id), sizeof id);
    std::rename((file + ".new").c_str(), file.c_str());
  } else {
    wait_until(file);
    std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(&id), sizeof id);
  }
  return id;
}

float value(int rank, int step, std::size_t i) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(step) * 13) % 101) * 0.01f *
         static_cast<float>(rank + 1);
}

std::uint16_t bfloat(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}

class Job {
 public:
  Job(const std::string& folder, int rank)
      : rank_(rank), out_(folder + "/bytes." + std::to_string(rank), std::ios::binary) {
    need(ncclCommInitRank(&comm_, kWorld, meet(folder, rank), rank), "ncclCommInitRank");
  }
  ~Job() { need(ncclCommDestroy(comm_), "ncclCommDestroy"); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void step(int number) {
    for (std::size_t i = 0; i < kElements; ++i) {
      full_[i] = value(rank_, number, i);
      half_[i] = bfloat(value(rank_, number, i + 3));
      wide_[i] = wide_[i + kElements] = value(rank_, number, i + 9);
    }
    if (number == 3 && rank_ == 1) full_[17] = NAN;
    need(ncclGroupStart(), "ncclGroupStart");
    need(ncclAllReduce(full_.data(), full_.data(), kElements, ncclFloat32, ncclSum, comm_, nullptr), "fp32");
    need(ncclAllReduce(half_.data(), half_.data(), kElements, ncclBfloat16, ncclAvg, comm_, nullptr), "bf16");
    need(ncclGroupEnd(), "ncclGroupEnd");
    need(ncclReduceScatter(wide_.data(), shard_.data(), kElements, ncclFloat32, ncclSum, comm_, nullptr),
         "scatter");
    float loss = full_[0];
    need(ncclAllReduce(&loss, &loss, 1, ncclFloat32, ncclSum, comm_, nullptr), "loss");
    need(ncclAllReduce(half_.data(), counts_.data(), kElements / 4, ncclInt32, ncclSum, comm_, nullptr),
         "int32");
    keep(full_);
    keep(half_);
    keep(shard_);
    keep(counts_);
    keep(std::vector<float>{loss});
  }

 private:
  template <class T>
  void keep(const std::vector<T>& data) {
    out_.write(reinterpret_cast<const char*>(data.data()),
               static_cast<std::streamsize>(data.size() * sizeof(T)));
  }

  const int rank_;
  std::ofstream out_;
  ncclComm_t comm_ = nullptr;
  std::vector<float> full_ = std::vector<float>(kElements), wide_ = std::vector<float>(2 * kElements),
                     shard_ = std::vector<float>(kElements);
  std::vector<std::uint16_t> half_ = std::vector<std::uint16_t>(kElements);
  std::vector<std::int32_t> counts_ = std::vector<std::int32_t>(kElements / 4);
};

// A scale of 1024 in a page of its own, which is gone after forget(): whoever reads it then ends the job.
class OwnScale {
 public:
  OwnScale()
      : scale_(static_cast<float*>(
            mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    *scale_ = 1024;
    need(stepgate_client_gate_create(nullptr, &gate_), "gate_create");
    need(stepgate_client_external_scale(gate_, scale_), "external_scale");
  }
  void forget() {
    need(stepgate_client_gate_destroy(gate_), "gate_destroy");
    munmap(scale_, kPage);
  }

 private:
  static constexpr std::size_t kPage = 4096;
  float* scale_;
  stepgate_gate* gate_ = nullptr;
};

void run(Job& job, int steps, const char* done) {
  for (int i = 1; i <= steps; ++i) job.step(i);
  std::printf("%s\n", done);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(120);
  if (argc != 4) return 2;
  const std::string folder = argv[1];
  {
    const int steps = std::atoi(argv[3]);
    std::optional<OwnScale> scale;
    if (there(folder + "/scaled")) scale.emplace();  // before there is anything to observe
    Job job(folder, std::atoi(argv[2]));
    run(job, steps, "steps done");
    if (scale) {
      wait_until(folder + "/forget");
      scale->forget();
      run(job, steps, "steps without a scale done");
    }
    if (there(folder + "/stay")) wait_until(folder + "/stop");
  }
  std::printf("job done\n");
  return 0;
}

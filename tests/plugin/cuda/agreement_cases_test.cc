// Every case of tests/vectors/agreement_cases.json on CUDA memory and streams.
#include "tests/plugin/agreement_cases.h"

#include "tests/plugin/cuda/cuda_world.h"

namespace stepgate::test {
namespace {

ncclDataType_t reduced_type(ElementType t) {
  switch (t) {
    case ElementType::kFp16: return ncclFloat16;
    case ElementType::kBf16: return ncclBfloat16;
    case ElementType::kFp64: return ncclFloat64;
    default: return ncclFloat32;
  }
}

class CudaCaseRank final : public CaseRank {
 public:
  explicit CudaCaseRank(CudaRank& r) : r_(r) {}
  ~CudaCaseRank() override {
    r_.sync(r_.stream());
    for (void* p : memory_) r_.device().release(p, device::Memory::kDevice);
  }

  int rank() const override { return r_.rank(); }
  gate::Gate& gate() override { return r_.gate(); }
  device::Device& device() override { return r_.device(); }
  device::Stream stream() override { return r_.stream(); }
  stepgate_status activate() override { return r_.activate(); }
  Step end() override {
    const CudaStep ended = r_.end_and_wait();
    Step s;
    s.end = ended.end;
    s.status = ended.status;
    s.decision = ended.decision;
    s.error = ended.error;
    s.found_inf = r_.read_outputs().found_inf;
    return s;
  }
  void all_reduce(ElementType type, void* data, std::size_t count) override {
    const Reduction op{OpKind::kAllReduce,
                       reduced_type(type),
                       ncclSum,
                       0,
                       data,
                       data,
                       count,
                       r_.nccl().ranks(),
                       r_.comm(),
                       static_cast<cudaStream_t>(r_.stream())};
    r_.gate().before(op);
    const ncclResult_t code = r_.nccl().all_reduce(rank(), data, data, count, op.type, r_.stream());
    EXPECT_EQ(code, ncclSuccess);
    r_.gate().after(op, stepgate::Outcome::kLaunched);
  }
  void* allocate(std::size_t bytes) override {
    void* p = r_.device().allocate(std::max<std::size_t>(bytes, 1), device::Memory::kDevice);
    EXPECT_NE(p, nullptr) << r_.device().last_error();
    return memory_.emplace_back(p);
  }
  void store(void* to, const std::vector<unsigned char>& bytes) override {
    if (bytes.empty()) return;
    EXPECT_EQ(r_.device().copy_in(r_.stream(), to, bytes.data(), bytes.size()), device::Code::kOk);
    r_.sync(r_.stream());
  }
  std::vector<unsigned char> load(const void* from, std::size_t bytes) override {
    std::vector<unsigned char> out(bytes);
    if (bytes == 0) return out;
    EXPECT_EQ(r_.device().copy_out(r_.stream(), out.data(), from, bytes), device::Code::kOk);
    r_.sync(r_.stream());
    return out;
  }

 private:
  CudaRank& r_;
  std::vector<void*> memory_;
};

TEST(CudaGateAgreementCases, AllOfTheFile) {
  run_agreement_cases([](const CaseWorld& c, const CaseBody& body) {
    CudaWorld world({.ranks = c.ranks, .policy = c.policy, .params = c.params});
    world.run([&](CudaRank& r) {
      CudaCaseRank rank(r);
      body(rank);
    });
  });
}

}  // namespace
}  // namespace stepgate::test

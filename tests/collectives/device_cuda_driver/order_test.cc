// Marks between streams, what a capture allows and what it is told, and which pointers kernels may read.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "tests/collectives/device_cuda_driver/device_job.h"
#include "tests/collectives/device_cuda_driver/standin.h"
#include "tests/test_seed.h"

namespace stepgate::test {
namespace {

using device::CaptureState;
using device::Code;
using device::Memory;
using namespace device::cuda;

StreamHandle cu_stream(const JobStream& s) {
  return static_cast<StreamHandle>(s.get());
}

// One stream writes, another one reads, with the mark between them or without.
class Marks : public testing::Test {
 protected:
  static standin::Options slow() {
    standin::Options options;
    options.max_delay_us = 2000;
    options.seed = test_seed();
    return options;
  }
  // Rounds in which the reader saw what the writer wrote.
  int seen(bool marked) {
    const auto cuda = standin_.device();
    EXPECT_NE(cuda, nullptr);
    const JobStream writer(standin_), reader(standin_);
    Held value(*cuda, sizeof(int), Memory::kDevice), out(*cuda, sizeof(int), Memory::kMapped);
    const HeldMark mark(*cuda);
    int fresh = 0;
    for (int round = 1; round <= 20; ++round) {
      EXPECT_EQ(cuda->copy_in(writer.get(), value.as<void>(), &round, sizeof round), Code::kOk);
      if (marked) {
        EXPECT_EQ(cuda->record(writer.get(), mark.get()), Code::kOk) << cuda->last_error();
        EXPECT_EQ(cuda->wait(reader.get(), mark.get()), Code::kOk) << cuda->last_error();
      }
      EXPECT_EQ(cuda->copy_out(reader.get(), out.as<void>(), value.as<void>(), sizeof(int)), Code::kOk);
      EXPECT_EQ(cuda->synchronize(reader.get()), Code::kOk);
      fresh += *out.as<int>() == round;
      EXPECT_EQ(cuda->synchronize(writer.get()), Code::kOk);
    }
    return fresh;
  }
  StandIn standin_{slow()};
};

#if !defined(__SANITIZE_THREAD__)  // the second round is a race, and meant to be one
TEST_F(Marks, AreTheOrderBetweenStreams) {
  EXPECT_EQ(seen(true), 20);
  EXPECT_LT(seen(false), 20);
}
#else
TEST_F(Marks, AreTheOrderBetweenStreams) {
  EXPECT_EQ(seen(true), 20);
}
#endif

TEST(CudaMarks, CostOneCallEach) {
  StandIn standin;
  const auto cuda = standin.device();
  ASSERT_NE(cuda, nullptr);
  const JobStream stream(standin);
  const HeldMark mark(*cuda);
  standin.control().forget_calls();
  EXPECT_EQ(cuda->record(stream.get(), mark.get()), Code::kOk);
  EXPECT_EQ(cuda->wait(stream.get(), mark.get()), Code::kOk);
  std::vector<std::string> work;
  for (const standin::CallRecord& c : standin.calls()) {
    if (std::string(c.name) != "cuCtxGetCurrent") work.push_back(c.name);
  }
  EXPECT_EQ(work, (std::vector<std::string>{"cuEventRecord", "cuStreamWaitEvent"}));
  standin.control().fail("cuEventCreate", 0, 2, 1);
  EXPECT_EQ(cuda->create_mark(), nullptr);
  EXPECT_EQ(std::string(cuda->last_error()), "create_mark: cuEventCreate: CUDA_ERROR_OUT_OF_MEMORY (2)");
  cuda->release_mark(nullptr);
}

class CudaCapture : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(cuda_, nullptr); }
  const Driver& driver() const { return blocking_.driver(); }
  void begin(const JobStream& s, CaptureMode mode = CaptureMode::kGlobal) {
    ASSERT_EQ(driver().call(driver().api().StreamBeginCapture, cu_stream(s), mode), Result::kSuccess);
  }
  Result end(const JobStream& s) {
    GraphHandle graph = nullptr;
    const Result r = driver().call(driver().api().StreamEndCapture, cu_stream(s), &graph);
    if (graph != nullptr) driver().call(driver().api().GraphDestroy, graph);
    return r;
  }

  StandIn standin_;
  std::unique_ptr<device::CudaDevice> cuda_ = standin_.device();
  JobStream blocking_{standin_, 0, true};
  JobStream other_{standin_};
};

TEST_F(CudaCapture, StateIsTheStreams) {
  EXPECT_EQ(cuda_->capture_state(blocking_.get()), CaptureState::kNone);
  EXPECT_EQ(cuda_->capture_state(nullptr), CaptureState::kNone);
  begin(blocking_);
  EXPECT_EQ(cuda_->capture_state(blocking_.get()), CaptureState::kCapturing);
  EXPECT_EQ(cuda_->capture_state(other_.get()), CaptureState::kNone);
  // The NULL stream would wait for it.
  EXPECT_EQ(cuda_->capture_state(nullptr), CaptureState::kUnknown);
  EXPECT_EQ(end(blocking_), Result::kSuccess);  // asking has cost it nothing
  begin(other_);
  EXPECT_EQ(cuda_->capture_state(nullptr), CaptureState::kNone);  // it does not wait for that one
  EXPECT_EQ(end(other_), Result::kSuccess);
  standin_.control().fail("cuStreamIsCapturing", 0, 719, 1);
  EXPECT_EQ(cuda_->capture_state(other_.get()), CaptureState::kFailed);
  EXPECT_EQ(std::string(cuda_->last_error()),
            "capture_state: cuStreamIsCapturing: CUDA_ERROR_LAUNCH_FAILED (719)");
}

TEST_F(CudaCapture, OneThatIsLostStillCaptures) {
  begin(blocking_);
  EXPECT_EQ(driver().call(driver().api().StreamSynchronize, cu_stream(blocking_)),
            Result::kStreamCaptureUnsupported);
  EXPECT_EQ(cuda_->capture_state(blocking_.get()), CaptureState::kCapturing);
  EXPECT_EQ(end(blocking_), Result::kStreamCaptureInvalidated);
}

// Whatever the control path does beside somebody's capture, the capture holds.
TEST_F(CudaCapture, TheControlPathSparesIt) {
  device::Mark mark = cuda_->create_mark();
  void* blocks[] = {cuda_->allocate(8, Memory::kDevice), cuda_->allocate(8, Memory::kMapped)};
  Held total(*cuda_, sizeof(GradStats), Memory::kDevice);
  begin(blocking_);
  cuda_->release_mark(mark);
  mark = cuda_->create_mark();
  EXPECT_NE(mark, nullptr);
  cuda_->release(blocks[0], Memory::kDevice);
  cuda_->release(blocks[1], Memory::kMapped);
  device::Scan job;
  job.total = total.as<GradStats>();
  EXPECT_EQ(cuda_->prepare(job), Code::kOk);
  EXPECT_TRUE(cuda_->reaches(total.as<void>()));
  EXPECT_EQ(end(blocking_), Result::kSuccess);
  cuda_->release_mark(mark);
}

// A mark inside a capture orders two streams of it, and takes the second one in.
TEST_F(CudaCapture, MarksJoinStreams) {
  const HeldMark mark(*cuda_), back(*cuda_);
  Held value(*cuda_, sizeof(int), Memory::kDevice);
  const int one = 1;
  begin(blocking_);
  EXPECT_EQ(cuda_->copy_in(blocking_.get(), value.as<void>(), &one, sizeof one), Code::kOk);
  EXPECT_EQ(cuda_->record(blocking_.get(), mark.get()), Code::kOk);
  EXPECT_EQ(cuda_->wait(other_.get(), mark.get()), Code::kOk);
  EXPECT_EQ(cuda_->capture_state(other_.get()), CaptureState::kCapturing);
  EXPECT_EQ(cuda_->copy_in(other_.get(), value.as<void>(), &one, sizeof one), Code::kOk);
  EXPECT_EQ(cuda_->record(other_.get(), back.get()), Code::kOk);
  EXPECT_EQ(cuda_->wait(blocking_.get(), back.get()), Code::kOk);
  EXPECT_EQ(end(blocking_), Result::kSuccess);
}

TEST(CudaReaches, DeviceMappedManagedAndRegisteredMemory) {
  standin::Options options;
  options.devices = 2;
  StandIn standin(options);
  const auto cuda = standin.device(0);
  const auto neighbour = standin.device(1);
  ASSERT_TRUE(cuda != nullptr && neighbour != nullptr);
  const JobStream stream(standin);  // its context is current
  const Driver& d = stream.driver();
  {
    Held own(*cuda, 100, Memory::kDevice), mapped(*cuda, 100, Memory::kMapped);
    Held far(*neighbour, 100, Memory::kDevice), far_mapped(*neighbour, 100, Memory::kMapped);
    EXPECT_TRUE(cuda->reaches(own.as<char>()));
    EXPECT_TRUE(cuda->reaches(own.as<char>() + 99));
    EXPECT_TRUE(cuda->reaches(mapped.as<char>() + 50));
    EXPECT_TRUE(cuda->reaches(far_mapped.as<char>()));  // portable
    EXPECT_FALSE(cuda->reaches(far.as<char>()));
    EXPECT_TRUE(neighbour->reaches(far.as<char>()));
    EXPECT_FALSE(neighbour->reaches(own.as<char>()));
  }
  DevicePtr managed = 0;
  ASSERT_EQ(d.call(d.api().MemAllocManaged, &managed, std::size_t{64}, kMemAttachGlobal), Result::kSuccess);
  EXPECT_TRUE(cuda->reaches(reinterpret_cast<void*>(managed)));
  EXPECT_TRUE(neighbour->reaches(reinterpret_cast<void*>(managed)));
  EXPECT_EQ(d.call(d.api().MemFree, managed), Result::kSuccess);
  std::vector<float> plain(100);
  EXPECT_FALSE(cuda->reaches(plain.data()));
  EXPECT_FALSE(cuda->reaches(&plain));
  EXPECT_FALSE(cuda->reaches(nullptr));
  ASSERT_EQ(d.call(d.api().MemHostRegister, static_cast<void*>(plain.data()), plain.size() * 4, 0u),
            Result::kSuccess);
  EXPECT_TRUE(cuda->reaches(plain.data() + 99));
  EXPECT_EQ(d.call(d.api().MemHostUnregister, static_cast<void*>(plain.data())), Result::kSuccess);
  EXPECT_FALSE(cuda->reaches(plain.data()));
}

}  // namespace
}  // namespace stepgate::test

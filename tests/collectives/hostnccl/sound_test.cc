// A communicator that was found fit for calls is not asked again under its lock, until something happens to
// it: each of the things that may.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "collectives/hostnccl/communicator.h"
#include "collectives/hostnccl/flight.h"
#include "tests/collectives/hostnccl/fake_transport.h"

namespace stepgate::hostnccl {
namespace {

using test::FakeTransport;

struct Event {
  const char* what;
  std::function<void(Communicator&, FakeTransport&)> happen;
};

TEST(SoundCommunicator, IsRefusedAfterWhateverHappensToIt) {
  const Event events[] = {
      {"abort", [](Communicator& comm, FakeTransport&) { comm.abort(); }},
      {"revoke", [](Communicator& comm, FakeTransport&) { (void)comm.begin_revoke(); }},
      {"end of operations", [](Communicator& comm, FakeTransport&) { comm.end_operations(); }},
      {"finalize", [](Communicator& comm, FakeTransport&) { (void)comm.finalize(); }},
      {"destroy", [](Communicator& comm, FakeTransport&) { (void)comm.destroy(); }},
      {"job", [](Communicator& comm, FakeTransport&) { comm.attach(std::make_shared<Job>()); }},
      {"death that a question shows",
       [](Communicator& comm, FakeTransport& fake) {
         fake.world_answer = SGT_PEER_DEAD;
         (void)comm.status();
       }},
      {"death that a call meets",
       [](Communicator& comm, FakeTransport& fake) {
         fake.final_answers = {SGT_PEER_DEAD};
         Request request{.kind = Collective::kAllReduce};
         request.count = 4;
         (void)comm.run(request);
       }},
  };
  for (const Event& event : events) {
    FakeTransport fake;
    std::shared_ptr<Communicator> comm;
    ASSERT_TRUE(Communicator::create(fake.table(), fake.id(), 0, 2, Config{}, &comm).ok());
    ASSERT_TRUE(comm->ready().ok());
    ASSERT_TRUE(comm->ready().ok());
    event.happen(*comm, fake);
    EXPECT_FALSE(comm->ready().ok()) << event.what;
    EXPECT_FALSE(comm->ready().ok()) << event.what;
  }
}

TEST(SoundCommunicator, IsReadyAgainWhenItsJobIsDone) {
  FakeTransport fake;
  std::shared_ptr<Communicator> comm;
  ASSERT_TRUE(Communicator::create(fake.table(), fake.id(), 0, 2, Config{}, &comm).ok());
  const auto job = std::make_shared<Job>();
  comm->attach(job);
  EXPECT_FALSE(comm->ready().ok());
  job->skip();
  EXPECT_TRUE(comm->ready().ok());
}

TEST(SoundCommunicator, AnAllReduceThatIsRefusedNamesItself) {
  FakeTransport fake;
  fake.start_answers = {SGT_INVALID};
  std::shared_ptr<Communicator> comm;
  ASSERT_TRUE(Communicator::create(fake.table(), fake.id(), 0, 2, Config{}, &comm).ok());
  Request request{.kind = Collective::kAllReduce};
  request.count = 4;
  const Outcome outcome = comm->run(request);
  EXPECT_EQ(outcome.code, ncclInvalidArgument);
  EXPECT_EQ(outcome.message.rfind("ncclAllReduce: ", 0), 0u) << outcome.message;
  EXPECT_TRUE(comm->run(request).ok());
  EXPECT_EQ(fake.ops_held(), 0);
}

}  // namespace
}  // namespace stepgate::hostnccl

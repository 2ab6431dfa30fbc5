// Creating worlds over real sockets: agreement, refusals with names, deadlines, several at once.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "collectives/ucx/meeting.h"
#include "collectives/ucx/protocol.h"
#include "collectives/ucx/socket.h"
#include "collectives/ucx/world.h"
#include "tests/collectives/ucx/ranks.h"

namespace stepgate::transport::testing {
namespace {

struct Arrival {
  int rank;
  int size;
};

// One thread per arrival, all on one id; the worlds that came about are destroyed.
std::vector<Outcome> arrive(const sgt_unique_id& id, const std::vector<Arrival>& arrivals,
                            const Setting& setting) {
  std::vector<Outcome> outcomes(arrivals.size());
  run_threads(static_cast<int>(arrivals.size()), [&](int i) {
    const auto index = static_cast<size_t>(i);
    sgt_world* world = nullptr;
    outcomes[index] = create(id, arrivals[index].rank, arrivals[index].size, setting, &world);
    if (world != nullptr) transport().world_destroy(world);
  });
  return outcomes;
}

bool mentions(const Outcome& outcome, const std::string& text) {
  return std::string(outcome.error.message).find(text) != std::string::npos;
}

TEST(Rendezvous, AWrongSizeIsAClearErrorForAll) {
  for (const Outcome& outcome : arrive(new_id(), {{0, 3}, {1, 3}, {2, 4}}, {"tcp", 20})) {
    EXPECT_EQ(outcome.status, SGT_INVALID) << outcome.error.message;
    EXPECT_TRUE(mentions(outcome, "was told a world of")) << outcome.error.message;
  }
}

TEST(Rendezvous, ARankTwiceIsAClearErrorForAll) {
  for (const Outcome& outcome : arrive(new_id(), {{0, 3}, {1, 3}, {1, 3}}, {"tcp", 20})) {
    EXPECT_EQ(outcome.status, SGT_INVALID) << outcome.error.message;
    EXPECT_EQ(outcome.error.culprit, 1);
    EXPECT_TRUE(mentions(outcome, "rank 1 has arrived twice")) << outcome.error.message;
  }
}

TEST(Rendezvous, TheDeadlineNamesTheMissingRanks) {
  const auto begin = std::chrono::steady_clock::now();
  for (const Outcome& outcome : arrive(new_id(), {{0, 4}, {2, 4}}, {"tcp", 0.5})) {
    EXPECT_EQ(outcome.status, SGT_TIMEOUT);
    EXPECT_EQ(outcome.error.culprit, 1);
    EXPECT_TRUE(mentions(outcome, "missing: rank 1, 3")) << outcome.error.message;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(Rendezvous, ALateRankHearsWhyThereIsNoWorld) {
  const sgt_unique_id id = new_id();
  arrive(id, {{0, 2}}, {"tcp", 0.2});
  const Outcome late = arrive(id, {{1, 2}}, {"tcp", 20})[0];
  EXPECT_EQ(late.status, SGT_TIMEOUT);
  EXPECT_TRUE(mentions(late, "missing: rank 1")) << late.error.message;
}

TEST(Rendezvous, RanksMustAgreeOnTransports) {
  const sgt_unique_id id = new_id();
  run_threads(2, [&](int rank) {
    sgt_world* world = nullptr;
    const Outcome outcome = create(id, rank, 2, {rank == 0 ? "tcp" : "shm", 20}, &world);
    EXPECT_EQ(outcome.status, SGT_INVALID);
    EXPECT_EQ(outcome.error.culprit, 1);
    EXPECT_TRUE(mentions(outcome, "rank 1 asks for transports 'shm', rank 0 for 'tcp'"))
        << outcome.error.message;
  });
}

TEST(Rendezvous, ArgumentsAreRefusedByNameValueAndWhatIsAllowed) {
  const sgt_unique_id id = new_id();
  sgt_unique_id foreign{};
  sgt_world* world = nullptr;
  const auto refused = [&](const Outcome& outcome, const char* text) {
    EXPECT_EQ(outcome.status, SGT_INVALID);
    EXPECT_STREQ(outcome.error.message, text);
    EXPECT_EQ(world, nullptr);
  };
  refused(create(id, 2, 2, {}, &world), "the rank is 2; allowed: 0..1");
  refused(create(id, 0, 0, {}, &world), "the size is 0; allowed: 1..32768");
  refused(create(id, 0, 1, {"rdma", 1}, &world), "transports is 'rdma'; allowed: auto, tcp, shm");
  refused(create(foreign, 0, 1, {}, &world), "the unique id is not one of this transport's");
  sgt_error error{};
  sgt_unique_id unused;
  EXPECT_EQ(transport().unique_id_at("no-such-device", &unused, &error), SGT_INVALID);
  EXPECT_STREQ(error.message,
               "interface 'no-such-device' is neither an IPv4 address nor a device that has one");
}

TEST(Rendezvous, ADeviceNameAndAnAddressAreListenedOn) {
  for (const char* interface : {"lo", "127.0.0.1"}) {
    sgt_unique_id id;
    sgt_error error{};
    ASSERT_EQ(transport().unique_id_at(interface, &id, &error), SGT_OK) << error.message;
    for (const Outcome& outcome : arrive(id, {{0, 2}, {1, 2}}, {"auto", 20}))
      EXPECT_EQ(outcome.status, SGT_OK) << outcome.error.message;
  }
}

TEST(Rendezvous, AnIdWhoseListenerIsGoneIsASystemError) {
  const sgt_unique_id id = new_id();
  arrive(id, {{0, 2}, {1, 2}}, {"tcp", 20});  // the world came and went, the listener with it
  const Outcome late = arrive(id, {{0, 2}}, {"tcp", 20})[0];
  EXPECT_EQ(late.status, SGT_SYSTEM);
  EXPECT_TRUE(mentions(late, "cannot reach the rendezvous at 127.0.0.1:")) << late.error.message;
}

TEST(Rendezvous, SeveralIdsAtOnceMakeSeparateWorlds) {
  run_threads(3, [](int which) {
    run_ranks(which + 1, {"auto", 60}, [which](Rank& rank) {
      int64_t value = which;
      const Outcome outcome = rank.allreduce(&value, &value, 1, SGT_INT64, SGT_SUM);
      EXPECT_EQ(outcome.status, SGT_OK) << outcome.error.message;
      EXPECT_EQ(value, which * (which + 1));
    });
  });
}

// Scanners and misdirected clients talk to open ports; the world comes about all the same.
TEST(Rendezvous, GarbageOnThePortDoesNoHarm) {
  const sgt_unique_id id = new_id();
  IdLayout layout;
  std::memcpy(&layout, id.bytes, sizeof layout);
  const auto reach = [&] { return connect_to(in_addr{layout.address}, layout.port, Deadline::after(5)); };
  FrameSocket wrong_key(reach()), nonsense(reach()), giant(reach());
  wrong_key.send(kHello, pack(Hello{Key{}, kProtocolVersion, 0, 2, 1}));
  nonsense.send(0x47455420, "/ HTTP/1.1");
  giant.send(kHello, std::string(100000, 'x'));
  for (const Outcome& outcome : arrive(id, {{0, 2}, {1, 2}}, {"tcp", 20}))
    EXPECT_EQ(outcome.status, SGT_OK) << outcome.error.message;
}

// A rank that meets the others, gives them its addresses, and is gone before data has passed: what is posted
// to and from it must end before the worker does, or UCX aborts the process.
TEST(Rendezvous, ARankThatDiesInTheProofEndsTheCreationOfTheOthers) {
  for (const char* transports : {"tcp", "shm"})
    for (int attempt = 0; attempt < 5; ++attempt) {
      const sgt_unique_id id = new_id();
      Outcome outcome;
      std::thread survivor([&] {
        sgt_world* world = nullptr;
        outcome = create(id, 0, 2, {transports, 30}, &world);
        EXPECT_EQ(world, nullptr);
      });
      {
        IdLayout layout;
        std::memcpy(&layout, id.bytes, sizeof layout);
        Control control(layout, 1, 2, 30);
        const Door door(control.local_address());
        Options options;
        options.transports = transports;
        const Meeting meeting = meet(control, layout, {1, 2}, options, door.id());
        const Fabric fabric(meeting.fabric);
        const PeerMemory memory;
        const Mailbox box({1, 2});
        control.exchange(pack_list({fabric.address(), pack(memory.card()), pack(box.card())}));
        if (attempt % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      survivor.join();
      EXPECT_EQ(outcome.status, SGT_PEER_DEAD) << outcome.error.message;
      EXPECT_EQ(outcome.error.culprit, 1) << outcome.error.message;
    }
}

}  // namespace
}  // namespace stepgate::transport::testing

// The rendezvous over loopback: who is let in, who is told why not, and what strangers can do.
#include "plugin/core/plane/rendezvous.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <stdexcept>

#include "plugin/core/plane/address.h"
#include "plugin/core/plane/sockets.h"

namespace stepgate::plane {
namespace {

constexpr int kWorld = 4;

TEST(Rendezvous, AddressesAreTakenApart) {
  std::string host;
  std::uint16_t port = 0;
  EXPECT_TRUE(split_address("node-1:29501", &host, &port));
  EXPECT_EQ(host, "node-1");
  EXPECT_EQ(port, 29501);
  for (const char* bad : {"", ":", "a", "a:", ":1", "a:0", "a:65536", "a:1x", "a:-1", "::1:5", "a:b:1"}) {
    EXPECT_FALSE(split_address(bad, &host, &port)) << bad;
  }
}

TEST(Rendezvous, JudgesEveryField) {
  const Hello good = make_hello("run", 1, kWorld, {});
  EXPECT_EQ(judge_hello(good, "run", kWorld), "");
  Hello h = good;
  h.magic[0] = 'x';
  EXPECT_EQ(judge_hello(h, "run", kWorld), "this is no rank of a StepGate job");
  h = good;
  h.version = 2;
  EXPECT_EQ(judge_hello(h, "run", kWorld), "version 2 of the rendezvous; rank 0 speaks 1");
  EXPECT_EQ(judge_hello(good, "run restart 1", kWorld), "run 'run'; rank 0 is of run 'run restart 1'");
  EXPECT_EQ(judge_hello(good, "run", 8), "a world of 4; rank 0 has 8");
  for (const int rank : {-1, 0, 4, 1000}) {
    EXPECT_EQ(judge_hello(make_hello("run", rank, kWorld, {}), "run", kWorld),
              "rank " + std::to_string(rank) + "; allowed: 1 to 3");
  }
}

// What anybody who reaches the port can say is no way into the terminal that shows the log.
TEST(Rendezvous, AStrangersKeyIsWrittenAsText) {
  EXPECT_EQ(judge_hello(make_hello("a\n\x1b[2J", 1, kWorld, {}), "run", kWorld),
            "run 'a??[2J'; rank 0 is of run 'run'");
}

// A key that is longer than its place is cut on both sides alike.
TEST(Rendezvous, LongKeysAreComparedAsFarAsTheyGo) {
  const std::string key(1000, 'k');
  EXPECT_EQ(judge_hello(make_hello(key, 1, kWorld, {}), key, kWorld), "");
}

struct Meeting {
  RendezvousServer server{"127.0.0.1", 0, "run", kWorld};
  std::vector<Hello> welcome;
  std::vector<std::string> refused;

  bool poll(double now = 0) {
    return server.poll(
        now, [&](const Hello& h) { welcome.push_back(h); },
        [&](const std::string& why) { refused.push_back(why); });
  }
};

struct Answered {
  bool ok = false, refused = false;
  std::string error;
};

// A call in a thread of its own, with the server looked at meanwhile.
Answered call(Meeting& meeting, const Hello& hello) {
  const std::atomic<bool> stop{false};
  auto answer = std::async(std::launch::async, [&] {
    Answered a;
    RendezvousCall c(stop);
    a.ok =
        c.connect("127.0.0.1", meeting.server.port(), 20, &a.error) && c.ask(hello, 20, &a.refused, &a.error);
    return a;
  });
  while (answer.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) meeting.poll();
  return answer.get();
}

TEST(Rendezvous, ARankOfTheRunIsLetInWithItsId) {
  Meeting meeting;
  sgt_unique_id id{};
  std::memset(id.bytes, 7, sizeof id.bytes);
  const Answered a = call(meeting, make_hello("run", 3, kWorld, id));
  EXPECT_TRUE(a.ok) << a.error;
  ASSERT_EQ(meeting.welcome.size(), 1u);
  EXPECT_EQ(meeting.welcome[0].rank, 3);
  EXPECT_EQ(std::memcmp(meeting.welcome[0].id.bytes, id.bytes, sizeof id.bytes), 0);
}

TEST(Rendezvous, ARankOfAnotherRunIsToldSo) {
  Meeting meeting;
  const Answered a = call(meeting, make_hello("older run", 3, kWorld, {}));
  EXPECT_FALSE(a.ok);
  EXPECT_TRUE(a.refused);
  EXPECT_EQ(a.error, "rank 0 does not let this rank in: run 'older run'; rank 0 is of run 'run'");
  EXPECT_TRUE(meeting.welcome.empty());
  EXPECT_EQ(meeting.refused.size(), 1u);
}

int stranger(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

// A scanner that says nothing, half a word, or nonsense, keeps nobody out.
TEST(Rendezvous, StrangersAreDroppedAndHoldNobodyUp) {
  Meeting meeting;
  const int silent = stranger(meeting.server.port()), half = stranger(meeting.server.port()),
            noise = stranger(meeting.server.port());
  EXPECT_EQ(::send(half, "GET / HTTP", 10, 0), 10);
  const std::string text(sizeof(Hello), 'x');
  EXPECT_EQ(::send(noise, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  EXPECT_TRUE(call(meeting, make_hello("run", 1, kWorld, {})).ok);
  EXPECT_EQ(meeting.refused, (std::vector<std::string>{"this is no rank of a StepGate job"}));
  meeting.poll(1000);
  char byte = 0;
  EXPECT_EQ(::recv(silent, &byte, 1, 0), 0) << "still open after its time";
  for (const int fd : {silent, half, noise}) ::close(fd);
}

int greeter(std::uint16_t port, int rank) {
  const int fd = stranger(port);
  const Hello hello = make_hello("run", rank, kWorld, {});
  EXPECT_EQ(::send(fd, &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  return fd;
}

// What they said still lies there, and an answer would still be taken: they are not waited for.
TEST(Rendezvous, WhoSaidHelloAndHungUpIsForgotten) {
  Meeting meeting;
  for (int i = 0; i < 200; ++i) ::close(greeter(meeting.server.port(), 1));
  EXPECT_FALSE(meeting.poll());
  EXPECT_TRUE(meeting.welcome.empty());
  EXPECT_TRUE(call(meeting, make_hello("run", 2, kWorld, {})).ok);
  ASSERT_EQ(meeting.welcome.size(), 1u);
  EXPECT_EQ(meeting.welcome[0].rank, 2);
}

TEST(Rendezvous, OneIsLetInAtATimeAndTheOthersWaitForTheirTurn) {
  Meeting meeting;
  const int first = greeter(meeting.server.port(), 1), second = greeter(meeting.server.port(), 2),
            older = stranger(meeting.server.port());
  const Hello hello = make_hello("older", 3, kWorld, {});
  EXPECT_EQ(::send(older, &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  EXPECT_TRUE(meeting.poll());
  EXPECT_EQ(meeting.welcome.size(), 1u);
  EXPECT_EQ(meeting.refused.size(), 1u) << "a refusal takes no time";
  EXPECT_FALSE(meeting.poll(1000)) << "the last, however late";
  ASSERT_EQ(meeting.welcome.size(), 2u);
  EXPECT_EQ(meeting.welcome[0].rank, 1);
  EXPECT_EQ(meeting.welcome[1].rank, 2);
  for (const int fd : {first, second, older}) ::close(fd);
}

// 42 ms for a new world of two is what was measured at worst, in a bit more than half of rank 0's time.
TEST(Rendezvous, ACallerWaitsAsLongAsAWholeJobTakes) {
  for (const int world : {2, 100, 1000, 10000}) EXPECT_GE(answer_seconds(world), world * 0.042 * 2) << world;
}

TEST(Rendezvous, NobodyListeningIsASentence) {
  std::uint16_t port = 0;
  {
    const Meeting gone;
    port = gone.server.port();
  }
  const std::atomic<bool> stop{false};
  std::string error;
  RendezvousCall c(stop);
  EXPECT_FALSE(c.connect("127.0.0.1", port, 5, &error));
  EXPECT_NE(error.find("cannot reach 127.0.0.1:" + std::to_string(port)), std::string::npos) << error;
}

// Rank 0 is whoever has the port.
TEST(Rendezvous, ARefusalIsWrittenAsText) {
  const int listener = listen_at(in_addr{htonl(INADDR_LOOPBACK)}, 0);
  const std::atomic<bool> stop{false};
  std::string error;
  bool refused = false;
  RendezvousCall c(stop);
  ASSERT_TRUE(c.connect("127.0.0.1", port_of(listener), 5, &error)) << error;
  pollfd arrival{listener, POLLIN, 0};
  ASSERT_EQ(::poll(&arrival, 1, 20'000), 1);
  const int fd = ::accept(listener, nullptr, nullptr);
  Answer answer{};
  std::memcpy(answer.magic, "SGPLANE", sizeof answer.magic);
  std::strcpy(answer.text, "no\n\x1b[2J");
  EXPECT_EQ(::send(fd, &answer, sizeof answer, 0), static_cast<ssize_t>(sizeof answer));
  EXPECT_FALSE(c.ask(make_hello("run", 1, kWorld, {}), 20, &refused, &error));
  EXPECT_TRUE(refused);
  EXPECT_EQ(error, "rank 0 does not let this rank in: no??[2J");
  ::close(fd);
  ::close(listener);
}

TEST(Rendezvous, AServerThatDoesNotAnswerEndsWithTheDeadlineOrTheStop) {
  Meeting meeting;  // never looked at
  std::atomic<bool> stop{false};
  std::string error;
  bool refused = false;
  RendezvousCall patient(stop);
  ASSERT_TRUE(patient.connect("127.0.0.1", meeting.server.port(), 5, &error)) << error;
  EXPECT_FALSE(patient.ask(make_hello("run", 1, kWorld, {}), 0.1, &refused, &error));
  EXPECT_FALSE(refused);
  EXPECT_EQ(error, "rank 0 gave no answer at the rendezvous");
  RendezvousCall stopped(stop);
  ASSERT_TRUE(stopped.connect("127.0.0.1", meeting.server.port(), 5, &error)) << error;
  stop = true;
  EXPECT_FALSE(stopped.ask(make_hello("run", 1, kWorld, {}), 3600, &refused, &error));
}

TEST(Rendezvous, ATakenPortIsASentence) {
  const Meeting meeting;
  try {
    const RendezvousServer second("127.0.0.1", meeting.server.port(), "run", kWorld);
    FAIL() << "two servers at one port";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("cannot listen at 127.0.0.1:"), std::string::npos) << e.what();
  }
}

TEST(Rendezvous, AHostOfAnotherMachineListensEverywhere) {
  const RendezvousServer server("192.0.2.1", 0, "run", kWorld);  // of the documentation's network
  EXPECT_NE(server.port(), 0);
  ::close(stranger(server.port()));
}

TEST(Rendezvous, WhatIsOnTheLoopbackIsReadFromTheText) {
  for (const char* host : {"localhost", "127.0.0.1", "127.0.1.1"}) EXPECT_TRUE(on_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "10.127.0.1", "128.0.0.1", "master", "localhost.example", "127", ""}) {
    EXPECT_FALSE(on_loopback(host)) << host;
  }
}

// A child that outlives its parent would hold the port of the job that comes next.
TEST(Rendezvous, AForkedChildLetsGoOfThePort) {
  auto server = std::make_unique<RendezvousServer>("127.0.0.1", 0, "run", kWorld);
  const std::uint16_t port = server->port();
  int hold[2], ready[2];
  ASSERT_EQ(::pipe(hold), 0);
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  char byte = 0;
  if (child == 0) {
    ::close(hold[1]);
    if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
    [[maybe_unused]] const ssize_t n = ::read(hold[0], &byte, 1);
    ::_exit(0);
  }
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  server.reset();
  const int fd = listen_at(in_addr{htonl(INADDR_LOOPBACK)}, port);
  EXPECT_GE(fd, 0) << "the child still listens at the port";
  if (fd >= 0) ::close(fd);
  for (const int end : {hold[0], hold[1], ready[0], ready[1]}) ::close(end);
  int status = 0;
  ::waitpid(child, &status, 0);
}

}  // namespace
}  // namespace stepgate::plane

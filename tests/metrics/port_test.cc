// Which port a page gets, and what is said when it gets none.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

#include "metrics/http_page.h"
#include "tests/metrics/publisher_fixture.h"

namespace stepgate::metrics::test {
namespace {

// A port that somebody else listens on.
class Occupied {
 public:
  explicit Occupied(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<std::uint16_t>(port));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    held_ = bind(fd_, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0 && listen(fd_, 1) == 0;
    socklen_t size = sizeof where;
    getsockname(fd_, reinterpret_cast<sockaddr*>(&where), &size);
    port_ = ntohs(where.sin_port);
  }
  ~Occupied() { close(fd_); }
  Occupied(const Occupied&) = delete;
  Occupied& operator=(const Occupied&) = delete;
  bool held() const { return held_; }
  int port() const { return port_; }

 private:
  int fd_;
  bool held_ = false;
  int port_ = 0;
};

// The first port of `count` in a row of which none is in use now, well below the ephemeral ones and
// elsewhere in each process, since tests run side by side.
int free_block(int count) {
  const int start = 10000 + static_cast<int>(getpid() % 200) * 100;
  for (int first = start; first < start + 6000; first += 100) {
    int free = 0;
    std::string why;
    for (int i = 0; i < count; ++i) {
      free += probe_port("127.0.0.1", static_cast<std::uint16_t>(first + i), &why) == BindResult::kFree;
    }
    if (free == count) return first;
  }
  return 0;
}

struct Opened {
  std::string said;
  std::unique_ptr<Publisher> publisher;
};
Opened open(const ExpositionOptions& exposition) {
  Opened opened;
  PublisherOptions options = quiet_options();
  options.exposition = exposition;
  options.log = [&](std::string_view line) { opened.said += std::string(line) + "\n"; };
  opened.publisher = std::make_unique<Publisher>(std::move(options));
  opened.publisher->poll_once();
  return opened;
}

TEST(Port, IsTheFirstOnePlusLocalRank) {
  ExpositionOptions o;
  o.first_port = static_cast<std::uint16_t>(free_block(4));
  ASSERT_NE(o.first_port, 0);
  o.local_rank = 2;
  o.local_world = 4;
  const Opened opened = open(o);
  EXPECT_EQ(port_of(opened.publisher->url()), o.first_port + 2) << opened.said;
  EXPECT_EQ(opened.said, "");
}

TEST(Port, WhenTakenTheNextAboveTheLocalRanksOwn) {
  ExpositionOptions o;
  const int first = free_block(8);
  ASSERT_NE(first, 0);
  o.first_port = static_cast<std::uint16_t>(first);
  o.local_rank = 1;
  o.local_world = 4;
  const Occupied own(first + 1), above(first + 4);
  ASSERT_TRUE(own.held() && above.held());
  const Opened opened = open(o);
  EXPECT_EQ(port_of(opened.publisher->url()), first + 5) << "not a neighbour's, not the taken one";
  EXPECT_EQ(http_get(opened.publisher->url()).status, 200);
}

TEST(Port, WhenSixtyFourAreTakenTheTextfile) {
  const int first = free_block(66);
  ASSERT_NE(first, 0);
  std::vector<std::unique_ptr<Occupied>> all;
  for (int i = 0; i < 1 + kFallbackPorts; ++i) {
    all.push_back(std::make_unique<Occupied>(first + i));
    ASSERT_TRUE(all.back()->held()) << first + i;
  }
  ExpositionOptions o;
  o.first_port = static_cast<std::uint16_t>(first);
  TempDir dir;
  o.textfile_dir = dir.path();
  Opened opened = open(o);
  EXPECT_EQ(opened.publisher->url(), "");
  EXPECT_NE(opened.said.find("no free metrics port on 127.0.0.1: tried " + std::to_string(first)),
            std::string::npos)
      << opened.said;
  EXPECT_NE(opened.said.find(dir.path()), std::string::npos) << opened.said;
  FakeSource source;
  opened.publisher->add_source(&source);
  opened.publisher->poll_once();
  EXPECT_EQ(dir.files(), std::vector<std::string>{"stepgate_charlm_run-7_rank3.prom"});
  opened.publisher->remove_source(&source);
}

TEST(Port, ABadAddressIsNamedAndNotSearchedFor) {
  for (const char* address : {"no.such.host", "::1", "300.1.2.3", "", "198.51.100.7"}) {
    ExpositionOptions o;
    o.address = address;
    const Opened opened = open(o);
    EXPECT_EQ(opened.publisher->url(), "");
    const std::string wanted = std::string("metrics address '") + address + "' cannot be used: ";
    EXPECT_EQ(opened.said.rfind(wanted, 0), 0u) << opened.said;
    EXPECT_EQ(opened.said.find("no free metrics port"), std::string::npos) << opened.said;
  }
}

TEST(Port, LocalhostAndAllInterfacesAreAddresses) {
  for (const char* address : {"localhost", "0.0.0.0"}) {
    ExpositionOptions o;
    o.address = address;
    o.first_port = 0;
    const Opened opened = open(o);
    EXPECT_EQ(http_get("127.0.0.1", port_of(opened.publisher->url()), "/metrics").status, 200) << opened.said;
  }
}

TEST(Port, NumbersAboveTheLastPortAreRefusedInWords) {
  ExpositionOptions o;
  o.first_port = 65535;
  o.local_rank = 3;
  o.local_world = 4;
  const Opened opened = open(o);
  EXPECT_EQ(opened.publisher->url(), "");
  EXPECT_NE(opened.said.find("65535"), std::string::npos) << opened.said;
}

TEST(Port, ProbeTellsTakenFromBadAddress) {
  const Occupied taken(0);
  std::string why;
  EXPECT_EQ(probe_port("127.0.0.1", static_cast<std::uint16_t>(taken.port()), &why), BindResult::kTaken);
  EXPECT_EQ(probe_port("198.51.100.7", 0, &why), BindResult::kBadAddress);
  EXPECT_NE(why, "");
  EXPECT_EQ(probe_port("127.0.0.1", 0, &why), BindResult::kFree);
}

}  // namespace
}  // namespace stepgate::metrics::test

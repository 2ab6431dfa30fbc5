#include <gtest/gtest.h>

#include "collectives/hostnccl/library.h"
#include "collectives/hostnccl/transport_loader.h"

namespace stepgate::hostnccl {
namespace {

void somewhere_in_this_program() {}

// A communicator that has not connected; one rank alone need not.
Outcome make(Library& library, ncclComm_t* handle, int size) {
  std::shared_ptr<Communicator> comm;
  if (Outcome o = library.prepare(size, 0, true, true, &comm); !o.ok()) return o;
  *handle = library.enlist(comm);
  return success();
}

TEST(TransportLoader, SearchesBesideItselfFirst) {
  const auto names =
      TransportLoader::candidates_beside(reinterpret_cast<const void*>(&somewhere_in_this_program));
  ASSERT_EQ(names.size(), 3u);
  EXPECT_TRUE(names[0].ends_with("/../libstepgate_ucx.so")) << names[0];
  EXPECT_TRUE(names[1].ends_with("/libstepgate_ucx.so")) << names[1];
  EXPECT_EQ(names[2], "libstepgate_ucx.so");
}

TEST(TransportLoader, SaysWhereItLookedAndKeepsTheAnswer) {
  TransportLoader loader({"/nonexistent/libstepgate_ucx.so", "libstepgate_nowhere.so"});
  const sgt_table* table = nullptr;
  for (int again = 0; again < 2; ++again) {
    const Outcome outcome = loader.load(&table);
    EXPECT_EQ(outcome.code, ncclSystemError);
    EXPECT_NE(outcome.message.find("/nonexistent/libstepgate_ucx.so: no such file"), std::string::npos);
    EXPECT_NE(outcome.message.find("libstepgate_nowhere.so"), std::string::npos) << outcome.message;
    EXPECT_EQ(table, nullptr);
  }
}

TEST(TransportLoader, RefusesALibraryThatIsNoTransport) {
  TransportLoader loader({"libm.so.6"});
  const sgt_table* table = nullptr;
  const Outcome outcome = loader.load(&table);
  EXPECT_EQ(outcome.code, ncclSystemError);
  EXPECT_NE(outcome.message.find("stepgate_ucx_table"), std::string::npos) << outcome.message;
}

TEST(Library, WithoutATransportOneRankStillWorks) {
  Library library({"/nonexistent/libstepgate_ucx.so"});
  ncclUniqueId id = {};
  EXPECT_EQ(library.unique_id(&id).code, ncclSystemError);
  ncclComm_t handle = nullptr;
  EXPECT_EQ(make(library, &handle, 2).code, ncclSystemError);
  EXPECT_TRUE(make(library, &handle, 1).ok());
  EXPECT_NE(handle, nullptr);
}

TEST(Library, HandlesAreNeverUsedTwice) {
  Library library({});
  ncclComm_t a = nullptr;
  ncclComm_t b = nullptr;
  std::shared_ptr<Communicator> comm;
  ASSERT_TRUE(make(library, &a, 1).ok());
  EXPECT_TRUE(library.retire(a));
  EXPECT_FALSE(library.retire(a));
  ASSERT_TRUE(make(library, &b, 1).ok());
  EXPECT_NE(a, b);
  EXPECT_EQ(library.find(a, &comm).code, ncclInvalidArgument);
  EXPECT_TRUE(library.find(b, &comm).ok());
}

TEST(Library, AnIdServesOneCommunicator) {
  Library library({});
  ASSERT_TRUE(library.spend(ncclUniqueId{}, 0).ok());
  ASSERT_TRUE(library.spend(ncclUniqueId{}, 1).ok()) << "another rank of it";
  const Outcome again = library.spend(ncclUniqueId{}, 0);
  EXPECT_EQ(again.code, ncclInvalidUsage);
  EXPECT_NE(again.message.find("get a new one"), std::string::npos) << again.message;
}

TEST(Library, ForeignPointersAreNotRead) {
  Library library({});
  std::shared_ptr<Communicator> comm;
  EXPECT_EQ(library.find(reinterpret_cast<ncclComm_t>(16), &comm).code, ncclInvalidArgument);
  EXPECT_EQ(library.find(nullptr, &comm).code, ncclInvalidArgument);
}

}  // namespace
}  // namespace stepgate::hostnccl

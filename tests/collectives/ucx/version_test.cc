// Another UCX in the process. This program answers for it, as a library that the job brought would: its own
// ucp_get_version comes first.
#include <gtest/gtest.h>

#include <string>

#include "tests/collectives/ucx/ranks.h"

extern "C" __attribute__((visibility("default"))) void ucp_get_version(unsigned* major, unsigned* minor,
                                                                       unsigned* release) {
  *major = 9;
  *minor = 4;
  *release = 1;
}

namespace stepgate::transport::testing {
namespace {

TEST(Version, AnotherUcxIsRefusedInWords) {
  sgt_world* world = nullptr;
  const Outcome made = create(new_id(), 0, 1, {.transports = "shm"}, &world);
  EXPECT_EQ(made.status, SGT_VERSION);
  EXPECT_EQ(world, nullptr);
  EXPECT_NE(std::string(made.error.message).find("UCX 9.4 lives in this process"), std::string::npos)
      << made.error.message;
}

}  // namespace
}  // namespace stepgate::transport::testing

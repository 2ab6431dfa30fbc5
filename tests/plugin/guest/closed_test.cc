// dlclose() of the plugin: harmless whenever it comes.
#include <gtest/gtest.h>

#include "tests/plugin/guest/preloaded.h"

namespace stepgate::test {
namespace {

// A job that closes what it opened has threads of the plugin in it, and pointers that it handed out:
// the objects stay.
TEST(Closed, ThePluginGoesOnAfterDlclose) {
  Variables variables = guest_variables();
  variables["LD_PRELOAD"] = GUEST_TEST_RUNTIME;
  const Outcome o = run({GUEST_TEST_CLOSED, STEPGATE_TEST_LIB "/libstepgate.so"}, variables);
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(o.out, "create 0\nurl 0\nclose 0\ncreate 0\ndestroy 0\nurl 0\nsame 1\n") << o.err;
}

}  // namespace
}  // namespace stepgate::test

// Python with the plugin in it: faulthandler, multiprocessing, shells. What it prints must be what it
// prints without.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/plugin/guest/preloaded.h"

namespace stepgate::test {
namespace {

const std::string kScript = STEPGATE_TEST_SOURCE "/tests/plugin/guest/python_guest.py";

std::string python() {
  return GUEST_TEST_PYTHON;
}

TEST(Python, MultiprocessingShellsAndSignalsAreAsWithoutThePlugin) {
  if (python().empty()) GTEST_SKIP() << "no python3 when this was configured";
  const Outcome without = run({python(), kScript});
  const Outcome with = run({python(), kScript}, guest_variables());
  EXPECT_EQ(without.status, 0) << without.out << without.err;
  EXPECT_EQ(with.status, 0) << with.out << with.err;
  EXPECT_EQ(without.out.find("not ok"), std::string::npos) << without.out;
  EXPECT_GT(lines_of(without.out).size(), 15u);
  EXPECT_EQ(with.out, without.out);
  EXPECT_EQ(without.err, "");
  EXPECT_EQ(with.err, "gate scraped True\ngate destroyed True\n");
}

TEST(Python, FaulthandlerStillReportsACrash) {
  if (python().empty()) GTEST_SKIP() << "no python3 when this was configured";
  const Outcome o = run({python(), kScript, "crash"}, guest_variables());
  EXPECT_EQ(o.status, 128 + SIGSEGV) << o.out << o.err;
  EXPECT_NE(o.err.find("Fatal Python error: Segmentation fault"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("in main"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace stepgate::test

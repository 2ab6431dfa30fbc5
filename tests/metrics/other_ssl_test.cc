// A process in which another libssl.so was opened first: the server would get that one when it asks for the
// name.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "metrics/tls_context.h"

namespace stepgate::metrics {
namespace {

TEST(OtherSsl, NoTlsAndItIsToldWhy) {
  ASSERT_NE(dlopen(STEPGATE_TEST_OTHER_SSL, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
  std::string folder = "/tmp/stepgate-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string file = folder + "/page.pem";
  std::ofstream(file) << "never looked into\n";
  std::string error, note;
  EXPECT_EQ(TlsContext::open(STEPGATE_TEST_TLS_FOLDER, file, file, &error, &note), nullptr);
  EXPECT_NE(error.find("this process has loaded another libssl.so"), std::string::npos) << error;
  unlink(file.c_str());
  rmdir(folder.c_str());
}

}  // namespace
}  // namespace stepgate::metrics

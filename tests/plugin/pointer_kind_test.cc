// Asking about a pointer, where no driver is loaded: the loader is not made to search for one at every call.
#include "plugin/core/pointer_kind.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

namespace {

int searches = 0;

}  // namespace

// The linker sends every dlopen of this program here (--wrap).
extern "C" void* __real_dlopen(const char* file, int flags);
extern "C" void* __wrap_dlopen(const char* file, int flags) {
  if (file != nullptr && std::strcmp(file, "libcuda.so.1") == 0) ++searches;
  return __real_dlopen(file, flags);
}

namespace stepgate::gate {
namespace {

TEST(PointerKind, ADriverIsSearchedForOnceUntilSomethingIsLoaded) {
  const int here = 0;
  EXPECT_FALSE(is_device_only(&here));
  const int first = searches;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(is_device_only(&here));
  EXPECT_EQ(searches, first);

  void* const other = __real_dlopen("libanl.so.1", RTLD_LAZY);
  ASSERT_NE(other, nullptr) << dlerror();
  EXPECT_FALSE(is_device_only(&here));
  EXPECT_EQ(searches, first + 1) << "what was loaded may have been a driver";
  dlclose(other);
}

}  // namespace
}  // namespace stepgate::gate

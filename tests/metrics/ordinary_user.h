// What an ordinary user may read, for tests that run as root, who may read everything.
//
//   const WithoutRootsRights ordinary;
//   EXPECT_EQ(open(path_of_mode_0000, O_RDONLY), -1);
//
// Thread: the rights are those of the thread that makes it and of the threads that it starts meanwhile; it
// ends in the same thread. For a test that is no root's it does nothing.
#pragma once

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <unistd.h>

namespace stepgate::metrics::test {

class WithoutRootsRights {
 public:
  WithoutRootsRights() { EXPECT_TRUE(change(65534)) << "user and group of no one"; }
  ~WithoutRootsRights() { EXPECT_TRUE(change(0)); }
  WithoutRootsRights(const WithoutRootsRights&) = delete;
  WithoutRootsRights& operator=(const WithoutRootsRights&) = delete;

 private:
  // The user last on the way down, first on the way up: the capabilities go and come with it.
  static bool change(unsigned id) {
    if (geteuid() != 0) return true;
    if (id == 0) setfsuid(0);
    setfsgid(id);
    if (id != 0) setfsuid(id);
    return static_cast<unsigned>(setfsuid(-1)) == id && static_cast<unsigned>(setfsgid(-1)) == id;
  }
};

}  // namespace stepgate::metrics::test

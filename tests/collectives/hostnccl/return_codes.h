// Cases of RETURN_CODES.md: a call on one rank, and what the table says of it.
//
// Thread: one test's. Ownership: a case ends what it makes.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/collectives/hostnccl/ranks.h"

namespace stepgate::hostnccl::test {

using ReturnCase = std::pair<std::string, std::string>;  // call, what of it
using ReturnTest = std::pair<ReturnCase, std::function<ncclResult_t()>>;

// A communicator of one rank for one case.
class One {
 public:
  One() { EXPECT_EQ(ncclCommInitAll(&comm_, 1, nullptr), ncclSuccess) << failure(); }
  ~One() { (void)ncclCommAbort(comm_); }
  One(const One&) = delete;
  One& operator=(const One&) = delete;

  ncclComm_t get() const { return comm_; }
  ncclComm_t revoked() const {
    EXPECT_EQ(ncclCommRevoke(comm_, 0), ncclSuccess) << failure();
    return comm_;
  }
  ncclComm_t finalized() const {
    EXPECT_EQ(ncclCommFinalize(comm_), ncclSuccess) << failure();
    return comm_;
  }
  ncclComm_t destroyed() const {
    EXPECT_EQ(ncclCommDestroy(comm_), ncclSuccess) << failure();
    return comm_;
  }

 private:
  ncclComm_t comm_ = nullptr;
};

// Of the collectives, sends and receives, and operators of a program's own.
std::vector<ReturnTest> collective_return_codes();

}  // namespace stepgate::hostnccl::test

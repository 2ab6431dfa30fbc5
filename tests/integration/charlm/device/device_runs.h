// charlm with --device cuda over the stand-in driver, beside the same run on the host.
//
// Thread: any. Order, lock: none. Ownership: values.
#pragma once

#include <gtest/gtest.h>

#include "tests/integration/charlm/charlm_runs.h"

namespace stepgate::test {

// The stand-in where `stepgate run` and its ranks find it. Operations of a stream are late at random, so that
// nothing is done in time by luck; the seed is STEPGATE_TEST_SEED's or a fresh one, and printed. A host that
// touches device memory crashes.
std::map<std::string, std::string> over_the_standin();

// `setup` as it is on the host, and with --device cuda and `more` over the stand-in. Both must succeed.
struct HostAndDevice {
  CharlmRun host;
  CharlmRun device;
};
HostAndDevice run_both(const CharlmSetup& setup, const std::vector<std::string>& more = {});

// Every rank: the same decisions, reasons, scales, norms, losses and offenders, and the same weights, all in
// bits.
void expect_same(const HostAndDevice& runs);

}  // namespace stepgate::test

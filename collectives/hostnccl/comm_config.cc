#include "collectives/hostnccl/comm_config.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

namespace stepgate::hostnccl {
namespace {

constexpr int kAny = std::numeric_limits<int>::max();
constexpr int kMostChannels = 64;

constexpr unsigned version(unsigned minor) {
  return 20000 + 100 * minor;
}

struct Member {
  const char* name;
  int ncclConfig_t::*value;
  int least;
  int most;
  unsigned since;
};

// maxCTAs has its own check below; trafficClass, netName and commName have none in NCCL.
constexpr Member kMembers[] = {
    {"blocking", &ncclConfig_t::blocking, 0, 1, version(14)},
    {"cgaClusterSize", &ncclConfig_t::cgaClusterSize, 0, kAny, version(17)},
    {"minCTAs", &ncclConfig_t::minCTAs, 1, kAny, version(17)},
    {"maxCTAs", &ncclConfig_t::maxCTAs, 1, kAny, version(17)},
    {"splitShare", &ncclConfig_t::splitShare, 0, 1, 0},
    {"collnetEnable", &ncclConfig_t::collnetEnable, 0, 1, version(27)},
    {"CTAPolicy", &ncclConfig_t::CTAPolicy, 0, 3, version(27)},
    {"shrinkShare", &ncclConfig_t::shrinkShare, 0, 1, version(27)},
    {"nvlsCTAs", &ncclConfig_t::nvlsCTAs, 1, kAny, version(27)},
    {"nChannelsPerNetPeer", &ncclConfig_t::nChannelsPerNetPeer, 1, kMostChannels, version(28)},
    {"nvlinkCentricSched", &ncclConfig_t::nvlinkCentricSched, 0, 1, version(28)},
};

// What is behind the end of a shorter struct keeps its default.
template <typename Struct>
void copy_front(const Struct* from, Struct* to) {
  std::size_t size = 0;
  std::memcpy(&size, from, sizeof size);
  std::memcpy(static_cast<void*>(to), from, std::min(size, sizeof *to));
}

Outcome check(const Member& member, const ncclConfig_t& config) {
  const int value = config.*member.value;
  if (value == NCCL_CONFIG_UNDEF_INT || (value >= member.least && value <= member.most)) return success();
  return invalid_argument(std::string("config.") + member.name + " " + std::to_string(value) +
                          " is not allowed: " + std::to_string(member.least) + " to " +
                          std::to_string(member.most));
}

}  // namespace

Outcome read_comm_config(const ncclConfig_t* given, bool* blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  *blocking = true;
  if (given == nullptr) return success();
  config.magic = 0;
  copy_front(given, &config);
  if (config.magic != STEPGATE_NCCL_CONFIG_MAGIC) {
    return invalid_argument("config was not initialized with NCCL_CONFIG_INITIALIZER");
  }
  for (const Member& member : kMembers) {
    if (config.version < member.since) config.*member.value = NCCL_CONFIG_UNDEF_INT;
    if (Outcome o = check(member, config); !o.ok()) return o;
  }
  // As in NCCL, where an undefined maximum is the smallest number: a minimum alone is refused.
  if (config.minCTAs > config.maxCTAs) {
    return invalid_argument("config.minCTAs " + std::to_string(config.minCTAs) +
                            " is not allowed: at most config.maxCTAs, which must be given too");
  }
  *blocking = config.blocking != 0;
  return success();
}

Outcome answer_simulation(ncclSimInfo_t* given) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  info.magic = 0;
  copy_front(given, &info);
  if (info.magic != STEPGATE_NCCL_SIM_INFO_MAGIC) {
    return invalid_argument("simInfo was not initialized with NCCL_SIM_INFO_INITIALIZER");
  }
  const std::size_t end = offsetof(ncclSimInfo_t, estimatedTime) + sizeof info.estimatedTime;
  if (info.size >= end) given->estimatedTime = NCCL_UNDEF_FLOAT;
  return success();
}

}  // namespace stepgate::hostnccl

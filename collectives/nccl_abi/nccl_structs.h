// The layouts behind ncclConfig_t and ncclSimInfo_t, those of 2.28, for what reads them here
// (hostnccl, and the shim a name) and for programs that fill them in. nccl_abi.h leaves both opaque; who only
// hands them on keeps it that way. A test compares every member with NVIDIA's header where that is present.
//
//   ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
//   config.blocking = 0;
//
// Plain C99 values: no thread, order, lock or ownership of their own.
#pragma once

#include "collectives/nccl_abi/nccl_abi.h"

#if !defined(STEPGATE_USE_NVIDIA_NCCL_H)

#define STEPGATE_NCCL_CONFIG_MAGIC 0xcafebeefu
#define STEPGATE_NCCL_SIM_INFO_MAGIC 0x74685283u
#define STEPGATE_NCCL_STRUCTS_VERSION 22809u

struct ncclConfig_v22800 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
};

struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
};

#ifndef STEPGATE_NCCL_ABI_TYPES_ONLY
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f

#define NCCL_CONFIG_INITIALIZER                                                                     \
  {                                                                                                 \
    sizeof(struct ncclConfig_v22800), STEPGATE_NCCL_CONFIG_MAGIC, STEPGATE_NCCL_STRUCTS_VERSION,    \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
        NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT                                                \
  }

#define NCCL_SIM_INFO_INITIALIZER                                                                   \
  {                                                                                                 \
    sizeof(struct ncclSimInfo_v22200), STEPGATE_NCCL_SIM_INFO_MAGIC, STEPGATE_NCCL_STRUCTS_VERSION, \
        NCCL_UNDEF_FLOAT                                                                            \
  }

#endif  // STEPGATE_NCCL_ABI_TYPES_ONLY

#endif  // STEPGATE_USE_NVIDIA_NCCL_H

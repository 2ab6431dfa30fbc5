// NVIDIA's nccl.h, with our types beside it in a namespace: every value is compared here, at compile
// time; the functions' types are listed for the test to compare.
#include <limits.h>
#include <nccl.h>
#include <stddef.h>

#include <typeinfo>

namespace ours {
#define STEPGATE_NCCL_ABI_TYPES_ONLY
#include "collectives/nccl_abi/nccl_abi.h"
#include "collectives/nccl_abi/nccl_structs.h"
}  // namespace ours

#include "tests/collectives/nccl_abi/declarations.h"

#define SAME_VALUE(name)                                                    \
  static_assert(static_cast<long>(::name) == static_cast<long>(ours::name), \
                "nccl_abi.h: " #name " differs from nccl.h: correct our value")
#define SAME_SIZE(name)                                                                         \
  static_assert(sizeof(::name) == sizeof(ours::name) && alignof(::name) == alignof(ours::name), \
                "nccl_abi.h: " #name " is laid out otherwise than in nccl.h: correct our declaration")

SAME_SIZE(ncclUniqueId);
static_assert(sizeof(::ncclUniqueId) == NCCL_UNIQUE_ID_BYTES);
SAME_SIZE(ncclComm_t);
SAME_SIZE(ncclResult_t);
SAME_SIZE(ncclRedOp_t);
SAME_SIZE(ncclDataType_t);
SAME_SIZE(ncclScalarResidence_t);
static_assert(sizeof(::cudaStream_t) == sizeof(ours::cudaStream_t));

SAME_VALUE(ncclSuccess);
SAME_VALUE(ncclUnhandledCudaError);
SAME_VALUE(ncclSystemError);
SAME_VALUE(ncclInternalError);
SAME_VALUE(ncclInvalidArgument);
SAME_VALUE(ncclInvalidUsage);
SAME_VALUE(ncclRemoteError);
SAME_VALUE(ncclInProgress);
SAME_VALUE(ncclNumResults);

SAME_VALUE(ncclSum);
SAME_VALUE(ncclProd);
SAME_VALUE(ncclMax);
SAME_VALUE(ncclMin);
SAME_VALUE(ncclAvg);
SAME_VALUE(ncclNumOps);
SAME_VALUE(ncclMaxRedOp);

SAME_VALUE(ncclInt8);
SAME_VALUE(ncclChar);
SAME_VALUE(ncclUint8);
SAME_VALUE(ncclInt32);
SAME_VALUE(ncclInt);
SAME_VALUE(ncclUint32);
SAME_VALUE(ncclInt64);
SAME_VALUE(ncclUint64);
SAME_VALUE(ncclFloat16);
SAME_VALUE(ncclHalf);
SAME_VALUE(ncclFloat32);
SAME_VALUE(ncclFloat);
SAME_VALUE(ncclFloat64);
SAME_VALUE(ncclDouble);
SAME_VALUE(ncclBfloat16);
#if NCCL_VERSION_CODE >= 22400
SAME_VALUE(ncclFloat8e4m3);
SAME_VALUE(ncclFloat8e5m2);
SAME_VALUE(ncclNumTypes);
#endif

#if NCCL_VERSION_CODE >= 22809
static_assert(NCCL_SPLIT_NOCOLOR == -1 && NCCL_SHRINK_DEFAULT == 0 && NCCL_SHRINK_ABORT == 1 &&
                  NCCL_REVOKE_DEFAULT == 0 && NCCL_COMM_NULL == nullptr,
              "nccl_abi.h repeats these macros: correct them");
#endif

SAME_VALUE(ncclScalarDevice);
SAME_VALUE(ncclScalarHostImmediate);

#define SAME_MEMBER(type, member)                                           \
  static_assert(offsetof(::type, member) == offsetof(ours::type, member) && \
                    sizeof(::type::member) == sizeof(ours::type::member),   \
                "nccl_structs.h: " #type "." #member " lies elsewhere in nccl.h: correct our struct")

#if NCCL_VERSION_CODE >= 22800 && NCCL_VERSION_CODE < 22900
SAME_SIZE(ncclConfig_t);
SAME_MEMBER(ncclConfig_t, size);
SAME_MEMBER(ncclConfig_t, magic);
SAME_MEMBER(ncclConfig_t, version);
SAME_MEMBER(ncclConfig_t, blocking);
SAME_MEMBER(ncclConfig_t, cgaClusterSize);
SAME_MEMBER(ncclConfig_t, minCTAs);
SAME_MEMBER(ncclConfig_t, maxCTAs);
SAME_MEMBER(ncclConfig_t, netName);
SAME_MEMBER(ncclConfig_t, splitShare);
SAME_MEMBER(ncclConfig_t, trafficClass);
SAME_MEMBER(ncclConfig_t, commName);
SAME_MEMBER(ncclConfig_t, collnetEnable);
SAME_MEMBER(ncclConfig_t, CTAPolicy);
SAME_MEMBER(ncclConfig_t, shrinkShare);
SAME_MEMBER(ncclConfig_t, nvlsCTAs);
SAME_MEMBER(ncclConfig_t, nChannelsPerNetPeer);
SAME_MEMBER(ncclConfig_t, nvlinkCentricSched);
constexpr ::ncclConfig_t kConfig = NCCL_CONFIG_INITIALIZER;
static_assert(kConfig.magic == STEPGATE_NCCL_CONFIG_MAGIC && kConfig.blocking == INT_MIN);
#endif
#if NCCL_VERSION_CODE >= 22200
SAME_SIZE(ncclSimInfo_t);
SAME_MEMBER(ncclSimInfo_t, size);
SAME_MEMBER(ncclSimInfo_t, magic);
SAME_MEMBER(ncclSimInfo_t, version);
SAME_MEMBER(ncclSimInfo_t, estimatedTime);
constexpr ::ncclSimInfo_t kSimInfo = NCCL_SIM_INFO_INITIALIZER;
static_assert(kSimInfo.magic == STEPGATE_NCCL_SIM_INFO_MAGIC && kSimInfo.estimatedTime == -1.0F);
#endif

int nvidia_version() {
  return NCCL_VERSION_CODE;
}

std::vector<Declaration> nvidia_declarations() {
#define DECLARATION(function) {#function, typeid(decltype(::function)).name()},
  return {
    NCCL_FUNCTIONS_21800(DECLARATION)
#if NCCL_VERSION_CODE >= 21900
    NCCL_FUNCTIONS_21900(DECLARATION)
#endif
#if NCCL_VERSION_CODE >= 22200
    NCCL_FUNCTIONS_22200(DECLARATION)
#endif
#if NCCL_VERSION_CODE >= 22300
    NCCL_FUNCTIONS_22300(DECLARATION)
#endif
#if NCCL_VERSION_CODE >= 22700
    NCCL_FUNCTIONS_22700(DECLARATION)
#endif
#if NCCL_VERSION_CODE >= 22800
    NCCL_FUNCTIONS_22800(DECLARATION)
#endif
#if NCCL_VERSION_CODE >= 22809
    NCCL_FUNCTIONS_22809(DECLARATION)
#endif
  };
#undef DECLARATION
}

// NCCL's types and operators beside Open MPI's, as far as it has them.
//
// Plain data, any thread; usable once MPI is initialised.
#pragma once

#include <mpi.h>

#include "collectives/nccl_abi/nccl_abi.h"

namespace stepgate::hostnccl::test {

struct TypePair {
  ncclDataType_t type;
  const char* name;
  MPI_Datatype mpi;  // MPI_DATATYPE_NULL: MPI has none
};

inline const TypePair kTypePairs[] = {
    {ncclInt8, "int8", MPI_INT8_T},
    {ncclUint8, "uint8", MPI_UINT8_T},
    {ncclInt32, "int32", MPI_INT32_T},
    {ncclUint32, "uint32", MPI_UINT32_T},
    {ncclInt64, "int64", MPI_INT64_T},
    {ncclUint64, "uint64", MPI_UINT64_T},
    {ncclFloat16, "fp16", MPI_DATATYPE_NULL},
    {ncclFloat32, "fp32", MPI_FLOAT},
    {ncclFloat64, "fp64", MPI_DOUBLE},
    {ncclBfloat16, "bf16", MPI_DATATYPE_NULL},
    {ncclFloat8e4m3, "e4m3", MPI_DATATYPE_NULL},
    {ncclFloat8e5m2, "e5m2", MPI_DATATYPE_NULL},
};

struct OpPair {
  ncclRedOp_t op;
  const char* name;
  MPI_Op mpi;  // MPI_OP_NULL: MPI has none
};

inline const OpPair kOpPairs[] = {
    {ncclSum, "sum", MPI_SUM}, {ncclProd, "prod", MPI_PROD},  {ncclMax, "max", MPI_MAX},
    {ncclMin, "min", MPI_MIN}, {ncclAvg, "avg", MPI_OP_NULL},
};

}  // namespace stepgate::hostnccl::test

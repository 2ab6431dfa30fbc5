#!/usr/bin/env bash
# Takes one synchronisation out of the device kernels at a time and expects a named test to go red:
# proof that the CPU stand-in, with ThreadSanitizer, sees a missing one.
#
#   tests/full/kernel-mutations.sh [BUILD_FOLDER]      default build/mutants; some minutes
#
# The switches are STEPGATE_MUTATE_* in collectives/device/cuda/kernels; nothing else defines them.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
place=${1:-build/mutants}
target=device_cuda_kernels_test
wrong=0

# run NAME SWITCH FILTER: builds with the switch and runs the tests of the filter; the log is NAME.log.
run() {
  local name=$1 switch=$2 filter=$3
  cmake --preset tsan -B "$place/tree" -DSTEPGATE_MUTATE="$switch" >"$place/$name.log" 2>&1
  cmake --build "$place/tree" --target "$target" >>"$place/$name.log" 2>&1
  TSAN_OPTIONS="halt_on_error=1:exitcode=66" timeout 900 \
    "$place/tree/bin/$target" --gtest_filter="$filter" >>"$place/$name.log" 2>&1
}

# expect_red NAME SWITCH FILTER
expect_red() {
  local name=$1 switch=$2 filter=$3 status=0
  run "$name" "$switch" "$filter" || status=$?
  if [[ $status == 0 ]] || ! grep -qE 'WARNING: ThreadSanitizer: data race|\[  FAILED  \]' "$place/$name.log"; then
    echo "WRONG: $filter stays green with $switch (status $status, see $place/$name.log)"
    wrong=1
  else
    echo "ok: $filter goes red with $switch"
  fi
}

mkdir -p "$place"
filters=StepKernels.VetoSkipsAndIsSeen:StepKernels.FinishDoesItAll:Types/ScanKernels.AnyGridAndGroupSize/bf16
if run none "" "$filters"; then
  echo "ok: green as it is"
else
  echo "WRONG: red as it is, see $place/none.log"
  exit 1
fi
expect_red syncthreads STEPGATE_MUTATE_NO_SYNCTHREADS StepKernels.VetoSkipsAndIsSeen
expect_red begin STEPGATE_MUTATE_NO_BEGIN_BARRIER StepKernels.VetoSkipsAndIsSeen
expect_red finish STEPGATE_MUTATE_NO_FINISH_BARRIER StepKernels.FinishDoesItAll
expect_red syncwarp STEPGATE_MUTATE_NO_SYNCWARP Types/ScanKernels.AnyGridAndGroupSize/bf16
expect_red threadfence STEPGATE_MUTATE_NO_THREADFENCE Types/ScanKernels.AnyGridAndGroupSize/bf16
exit "$wrong"

#!/usr/bin/env bash
# hostnccl's all-reduce beside Open MPI's, as one JSON array: 64 MiB at 2 and 4 ranks against Open MPI as it comes
# and over UCX, 64 bytes at 2 ranks against Open MPI over UCX and at 4 ranks as it comes.
#   run.sh BUILD_FOLDER [REPEATS [SHARE]]
# REPEATS: how often each is measured (default 1), each in a line. SHARE: rounds are divided by it (default 1).
set -euo pipefail
program=${1:?usage: run.sh BUILD_FOLDER [REPEATS [SHARE]]}/bin/bench_hostnccl
repeats=${2:-1}
share=${3:-1}

# Without these Open MPI's temporary buffers go back to the kernel after each call and it measures page faults.
export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=8000000000 MALLOC_TOP_PAD_=268435456
export STEPGATE_HOSTNCCL_TIMEOUT=60

launch=(mpirun --oversubscribe --bind-to none)
if [[ $(id -u) == 0 ]]; then launch+=(--allow-run-as-root); fi

# measure LABEL RANKS BYTES ROUNDS CALLS
measure() {
  local options=()
  if [[ $1 == ucx ]]; then options+=(--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any); else options+=(--mca pml ob1); fi
  "${launch[@]}" "${options[@]}" -n "$2" "$program" --label "$1" --bytes "$3" --rounds "$(($4 / share + 1))" --calls "$5"
}

comma=""
echo "["
for ((repeat = 0; repeat < repeats; ++repeat)); do
  for arguments in "default 2 67108864 20 1" "ucx 2 67108864 20 1" "default 4 67108864 14 1" \
    "ucx 4 67108864 14 1" "ucx 2 64 60 2000" "default 4 64 60 500"; do
    # shellcheck disable=SC2086  # words on purpose
    printf '%s%s' "$comma" "$(measure $arguments)"
    comma=$',\n'
  done
done
printf '\n]\n'

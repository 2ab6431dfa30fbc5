#!/usr/bin/env bash
# Runs hostnccl_conformance under mpirun.
#   conformance.sh PROGRAM [RANKS...]      without ranks: 1 to 8
set -euo pipefail
program=$1
shift
[[ $# -gt 0 ]] || set -- 1 2 3 4 5 6 7 8
launch=(mpirun --oversubscribe --bind-to none)
if [[ $(id -u) == 0 ]]; then launch+=(--allow-run-as-root); fi
# More ranks than cores: those of Open MPI must not spin while the others wait for a core.
launch+=(--mca mpi_yield_when_idle 1)
for ranks in "$@"; do
  "${launch[@]}" -n "$ranks" "$program"
done
